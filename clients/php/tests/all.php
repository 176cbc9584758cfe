<?php

/** Runs all tests, or those whose sentence contains the first argument. Exit status 0 when all hold. */

declare(strict_types=1);

use Ojs\Worker\Tests\Tests;

require __DIR__ . '/../autoload.php';
require __DIR__ . '/harness.php';
require __DIR__ . '/fake_init.php';
foreach (glob(__DIR__ . '/*_tests.php') as $file) {
    require $file;
}

$failed = 0;
$run = 0;
foreach (Tests::$all as $sentence => $function) {
    if (!str_contains($sentence, $argv[1] ?? '')) {
        continue;
    }
    $run++;
    try {
        $function();
        echo "ok    $sentence\n";
    } catch (Throwable $error) {
        $failed++;
        echo "FAIL  $sentence\n      {$error->getMessage()} ({$error->getFile()}:{$error->getLine()})\n";
    }
}
echo "$run tests, $failed failed\n";
exit($failed === 0 && $run > 0 ? 0 : 1);
