"""Shared parts of the checks with matrix-nio."""

import nio


def good(response, kind):
    """Expects a call to succeed."""
    assert isinstance(response, kind), response
    return response


async def exchange_keys(client):
    """Makes the calls about keys that are due after a sync."""
    if not client.olm:
        return
    await client.send_to_device_messages()
    if client.should_upload_keys:
        good(await client.keys_upload(), nio.KeysUploadResponse)
    if client.should_query_keys:
        good(await client.keys_query(), nio.KeysQueryResponse)
    if client.should_claim_keys:
        good(await client.keys_claim(client.get_users_for_key_claiming()), nio.KeysClaimResponse)
