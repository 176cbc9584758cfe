"""A fleet: hundreds of ojs-init at one backend."""
