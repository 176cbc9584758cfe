<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * Stands for ojs-init in a test of a handler: keeps what the handler sends, and stops and cancels
 * by the clock.
 *
 * @internal
 */
final class TestSession extends Session
{
    /** @var array<string, list<array<string, mixed>>> what the handler sent, by type */
    public array $sent = ['checkpoint' => [], 'progress' => []];

    /**
     * @param ?float $stoppingAt when the shutdown begins, by `now`
     * @param float $left seconds from then until the job is cancelled
     * @param array<string, float> $cancels when the job is cancelled, by reason
     */
    public function __construct(private readonly ?float $stoppingAt, float $left, private array $cancels)
    {
        if ($stoppingAt !== null) {
            $this->cancels += ['shutdown' => $stoppingAt + $left];
            $this->stopsAt = $stoppingAt + $left;
        }
        asort($this->cancels);
        $this->poll();
    }

    public function leave(): void
    {
        $this->poll();
        parent::leave();
    }

    public function send(string $frame): void
    {
        $fields = Json::decode($frame);
        $this->sent[$fields['type']][] = array_diff_key($fields, ['type' => true, 'job_id' => true]);
    }

    public function poll(): void
    {
        $now = self::now();
        $this->isStopping = $this->isStopping || ($this->stoppingAt !== null && $now >= $this->stoppingAt);
        $first = array_key_first($this->cancels);
        if ($first !== null && $now >= $this->cancels[$first]) {
            $this->cancelReason ??= $first;
        }
    }

    protected function wait(float $seconds): void
    {
        usleep((int) (min($seconds, 0.005) * 1e6));
    }
}
