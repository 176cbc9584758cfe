<?php

declare(strict_types=1);

namespace Ojs\Worker\Laravel;

use Illuminate\Contracts\Container\Container;
use Illuminate\Contracts\Queue\Job as JobContract;
use Illuminate\Queue\Jobs\Job as LaravelJob;
use Ojs\Worker\Job;

/**
 * A job as Laravel's code sees it: what `$this->job` is in a ShouldQueue class.
 *
 * @internal
 */
final class OjsJob extends LaravelJob implements JobContract
{
    /** Seconds that the job asked to be released for. */
    public float $delay = 0.0;
    /** What the job failed itself with. */
    public ?\Throwable $failure = null;

    /** @param array<string, mixed> $payload */
    public function __construct(
        Container $container,
        private readonly Job $job,
        private readonly array $payload,
        string $connection,
    ) {
        $this->container = $container;
        $this->connectionName = $connection;
        $this->queue = $job->queue;
    }

    public function getJobId()
    {
        return $this->job->id;
    }

    public function getRawBody()
    {
        return json_encode($this->payload, JSON_THROW_ON_ERROR);
    }

    public function payload()
    {
        return $this->payload;
    }

    public function attempts()
    {
        // Some backends count from 0.
        return max(1, $this->job->attempt ?? 1);
    }

    public function release($delay = 0)
    {
        parent::release($delay);
        $this->delay = (float) $delay;
    }

    public function fail($e = null)
    {
        $this->failure = $e instanceof \Throwable ? $e : null;
        parent::fail($e);
    }
}
