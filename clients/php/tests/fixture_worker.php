<?php

/** The fixture worker of docs/write-a-client.md, for clients/fixtures/play.py. */

declare(strict_types=1);

use Ojs\Worker\Discard;
use Ojs\Worker\Job;
use Ojs\Worker\Release;
use Ojs\Worker\Retry;
use Ojs\Worker\Tests\JsonLogger;
use Ojs\Worker\Worker;

require __DIR__ . '/../autoload.php';
require __DIR__ . '/JsonLogger.php';

$is_default = in_array('--concurrency', $argv, true) && in_array('default', $argv, true);
$log = new JsonLogger();
$worker = new Worker(concurrency: $is_default ? null : 2, log: $log);

foreach (['outer', 'inner'] as $name) {
    $worker->middleware(static function (Job $job, callable $next) use ($name): mixed {
        if ($job->type === 'fixture.middleware') {
            $job->context[] = $name;
        }
        return $next();
    });
}
$release_when_cancelled = static fn (Job $job) => throw new Release($job->cancelReason());

$worker->job('fixture.echo', static fn (Job $job): array => $job->args);
$worker->job('fixture.fail', static function (string $message, bool $retryable): never {
    throw $retryable
        ? new Retry($message, code: 'x_fixture', type: 'FixtureError')
        : new Discard($message, code: 'x_fixture', type: 'FixtureError');
});
$worker->job('fixture.crash', static fn (string $message) => throw new RuntimeException($message));
$worker->job('fixture.wait', static function (Job $job) use ($release_when_cancelled): never {
    $job->waitCancelled();
    $release_when_cancelled($job);
});
$worker->job('fixture.sleep', static fn (Job $job, float $ms) => $job->sleep($ms / 1000));
$worker->job('fixture.progress', static fn (Job $job) => $job->progress(0.5, 'half'));
$worker->job('fixture.checkpoint', static function (Job $job): array {
    $job->checkpoint(['step' => 1]);
    return ['resumed_from' => $job->lastCheckpoint];
});
$worker->job('fixture.heartbeat', static fn (Job $job) => $job->heartbeat());
$worker->job('fixture.release', static fn (Job $job) => throw new Release('not mine'));
$worker->job('fixture.release_after', static fn (float $after) => throw new Release('later', $after));
$worker->job('fixture.large', static fn (int $size): string => str_repeat('x', $size));
$worker->job('fixture.retry', static fn (string $message, float $after) => throw new Retry($message, $after, 'x_retry'));
$worker->job('fixture.discard', static fn (string $message) => throw new Discard($message));
$worker->job('fixture.not_json', static fn (Job $job): float => NAN);
$worker->job('fixture.fields', static function (Job $job): array {
    $left = $job->deadline === null ? null : (float) $job->deadline->format('U.u') - microtime(true);
    $remaining = $job->remaining();
    return [
        'id' => $job->id, 'type' => $job->type, 'queue' => $job->queue, 'attempt' => $job->attempt,
        'args' => $job->args, 'meta' => (object) $job->meta, 'last_checkpoint' => $job->lastCheckpoint,
        'has_deadline' => $left !== null, 'deadline_ms' => $left === null ? null : (int) ($left * 1000),
        'remaining_ms' => $remaining === null ? null : (int) ($remaining * 1000), 'is_last_attempt' => $job->isLastAttempt,
        'traceparent' => $job->traceparent,
    ];
});
$worker->job('fixture.typed', static fn (string $to, int $count): array => ['to' => $to, 'count' => $count]);
$worker->job('fixture.middleware', static fn (Job $job): array => $job->context);
$worker->job('fixture.log', static fn (string $text) => $log->log('info', $text));
$worker->job('fixture.iterate', static function (Job $job, int $count, float $ms): array {
    $done = [];
    foreach ($job->iterate($count > 0 ? range(0, $count - 1) : []) as $row) {
        $job->sleep($ms / 1000);
        $done[] = $row;
    }
    return ['rows' => $done];
});
$worker->job('fixture.keyed', static function (Job $job, int $count, float $ms): array {
    $rows = array_map(static fn (int $i): array => ['id' => 10 * $i], $count > 0 ? range(0, $count - 1) : []);
    $done = [];
    foreach ($job->iterate($rows, static fn (array $row): int => $row['id']) as $row) {
        $job->sleep($ms / 1000);
        $done[] = $row['id'];
    }
    return ['rows' => $done];
});
$worker->job('fixture.steps', static function (Job $job): array {
    $ran = [];
    $results = [];
    foreach ($job->args as $name) {
        $results[] = $job->step($name, static function () use ($name, &$ran): string {
            $ran[] = $name;
            return strtoupper($name);
        });
    }
    return ['ran' => $ran, 'results' => $results];
});
$worker->job('fixture.stopping', static function (Job $job) use ($release_when_cancelled): array {
    if (!$job->waitStopping()) {
        $release_when_cancelled($job);
    }
    return ['remaining_known' => $job->remaining() !== null];
});
$worker->run();
