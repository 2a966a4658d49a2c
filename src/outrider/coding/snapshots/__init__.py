"""Snapshots of the working folder, so that a session can be rewound."""
