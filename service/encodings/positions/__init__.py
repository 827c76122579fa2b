"""Position ids: which position each token of a prompt, or each patch of a picture, has."""
