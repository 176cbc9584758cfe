"""A soak: ojs-init in every mode for long, while everything around it fails. Its figures have to stay flat."""
