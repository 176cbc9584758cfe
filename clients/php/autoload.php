<?php

/** Loads the classes of ojs/worker without composer: require this file. */

declare(strict_types=1);

spl_autoload_register(static function (string $class): void {
    $prefix = 'Ojs\\Worker\\';
    if (str_starts_with($class, $prefix)) {
        $file = __DIR__ . '/src/' . strtr(substr($class, strlen($prefix)), '\\', '/') . '.php';
        if (is_file($file)) {
            require $file;
        }
    }
});
