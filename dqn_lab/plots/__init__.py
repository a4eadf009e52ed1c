"""Pictures of curves: runs grouped, their means and ranges, and how they are drawn."""
