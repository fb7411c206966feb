"""SVG figures of pages."""
