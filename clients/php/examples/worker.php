<?php

declare(strict_types=1);

require __DIR__ . '/../autoload.php';

use Ojs\Worker\Discard;
use Ojs\Worker\Job;
use Ojs\Worker\Worker;

$worker = new Worker();

$worker->job('email.send', function (Job $job, string $to, string $body): array {
    if (!str_contains($to, '@')) {
        throw new Discard("$to is no address");
    }
    $job->sleep(($job->meta['sleep_ms'] ?? 0) / 1000);  // stands for the work; a cancel ends it
    return ['sent' => true];
});

$worker->run();
