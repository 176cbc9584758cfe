<?php

/** A worker whose job does nothing, to measure what the library costs. */

declare(strict_types=1);

require __DIR__ . '/../autoload.php';

$worker = new Ojs\Worker\Worker();
$worker->job('bench.noop', static fn (mixed ...$args): mixed => null);
$worker->run();
