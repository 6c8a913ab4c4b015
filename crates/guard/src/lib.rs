//! What every sink asks first: the URL guard and the path policy.
