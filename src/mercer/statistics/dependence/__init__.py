"""Do variables depend on each other? HSIC and conditional tests."""
