"""Every certificate computed a second time, from the definitions."""
