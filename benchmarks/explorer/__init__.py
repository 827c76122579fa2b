"""The page in a browser: how soon it shows numbers, how fast it draws, how much it keeps."""
