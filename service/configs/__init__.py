"""From a model's config.json to its rotary settings, without a word of HTTP."""
