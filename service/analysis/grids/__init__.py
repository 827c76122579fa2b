"""Tables of grids and of axes told by their numbers: images, videos, sections."""
