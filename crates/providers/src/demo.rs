//! placeholder
use nanobot_types::ProviderName;
/// Demo.
#[derive(Debug)]
pub struct Demo { name: ProviderName }
impl Demo { /// new
 pub fn new(name: ProviderName) -> Self { Self { name } } }
#[async_trait::async_trait]
impl nanobot_provider::Provider for Demo {
    fn name(&self) -> &ProviderName { &self.name }
    async fn stream(&self, _r: nanobot_provider::ChatRequest) -> Result<nanobot_provider::ChatStream, nanobot_provider::ProviderError> { Err(nanobot_provider::ProviderError::Network(String::new())) }
}
