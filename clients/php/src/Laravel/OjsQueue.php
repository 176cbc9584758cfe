<?php

declare(strict_types=1);

namespace Ojs\Worker\Laravel;

use Illuminate\Contracts\Queue\Queue as QueueContract;
use Illuminate\Queue\Queue;
use Ojs\Worker\Client;

/**
 * Sends Laravel's jobs to the backend. ojs-init brings them to a worker, whose `JobHandler` runs
 * them.
 */
final class OjsQueue extends Queue implements QueueContract
{
    /** The type of jobs that are jobs of Laravel. */
    public const TYPE = 'laravel.job';

    public function __construct(
        private readonly Client $client,
        private readonly string $default = 'default',
        bool $afterCommit = false,
    ) {
        $this->dispatchAfterCommit = $afterCommit;
    }

    public function size($queue = null)
    {
        throw new \LogicException('the backend has the number of jobs, this connection does not');
    }

    public function push($job, $data = '', $queue = null)
    {
        $payload = $this->createPayload($job, $this->name($queue), $data);
        return $this->enqueueUsing($job, $payload, $queue, null, $this->pushRaw(...));
    }

    public function later($delay, $job, $data = '', $queue = null)
    {
        $at = gmdate('Y-m-d\TH:i:s\Z', $this->availableAt($delay));
        $options = ['delay_until' => $at];
        $push = fn (string $payload, ?string $queue): string => $this->pushRaw($payload, $queue, $options);
        $payload = $this->createPayload($job, $this->name($queue), $data);
        return $this->enqueueUsing($job, $payload, $queue, $delay, $push);
    }

    /**
     * `tries`, `timeout` and a single `backoff` of the job become options of the backend.
     *
     * @param string $payload
     * @param ?string $queue
     * @param array<string, mixed>|int|null $options options of the backend
     * @return string the job's id
     */
    public function pushRaw($payload, $queue = null, $options = [])
    {
        $fields = json_decode($payload, flags: JSON_THROW_ON_ERROR);
        $backoff = $fields->backoff ?? null;
        $retry = array_filter([
            'max_attempts' => $fields->maxTries ?? null,
            'initial_interval' => is_numeric($backoff) && $backoff > 0 ? "PT{$backoff}S" : null,
        ]);
        $all = array_filter([
            'queue' => $this->name($queue), 'timeout_ms' => 1000 * ($fields->timeout ?? 0), 'retry' => $retry,
        ]) + (is_array($options) ? $options : []);
        return $this->client->enqueue(self::TYPE, [$fields], Client::newId(), ...$all);
    }

    public function pop($queue = null)
    {
        throw new \LogicException('queue:work cannot take jobs from this connection, because ojs-init does: run a '
            . 'worker with ' . JobHandler::class . ' as its handler, by ojs-init -- php worker.php');
    }

    private function name(?string $queue): string
    {
        return $queue ?? $this->default;
    }
}
