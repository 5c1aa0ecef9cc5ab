<?php // A script that is asked for by its own name, with whatever follows it.
require __DIR__ . '/index.php';
