"""A model's config.json read into the parameters of its rotary tables."""
