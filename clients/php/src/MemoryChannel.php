<?php

declare(strict_types=1);

namespace Ojs\Worker;

use function array_key_first;
use function array_values;
use function asort;
use function max;
use function min;
use function usleep;

/**
 * Plays ojs-init for a test of a handler: keeps what is said, and stops and cancels by the clock.
 *
 * @internal
 */
final class MemoryChannel extends Channel
{
    /** @var list<mixed> */
    public array $checkpoints = [];
    /** @var list<array<string, mixed>> */
    public array $progress = [];

    /** @param array<string, float> $cancels by Clock: when it is cancelled for which reason */
    public function __construct(private array $cancels, private readonly ?float $stoppingAt, private readonly ?float $left)
    {
        $this->poll();
    }

    public function send(string $kind, string $frame): void
    {
        if ($kind === 'progress') {
            $fields = Json::decode($frame);
            unset($fields['type'], $fields['job_id']);
            $this->progress[] = $fields;
        }
    }

    public function checkpoint(string $frame): void
    {
        $this->checkpoints[] = Json::decode($frame)['state'];
    }

    public function stop(): void
    {
        $this->isStopping = true;
    }

    public function poll(): void
    {
        $now = Clock::now();
        if ($this->stoppingAt !== null && $now >= $this->stoppingAt && !$this->isStopping) {
            $this->isStopping = true;
            $this->stopsAt = $this->left === null ? null : $this->stoppingAt + $this->left;
            if ($this->stopsAt !== null) {
                $this->cancels['shutdown'] = min($this->cancels['shutdown'] ?? INF, $this->stopsAt);
            }
        }
        asort($this->cancels);
        $reason = array_key_first($this->cancels);
        if ($this->cancelReason === null && $reason !== null && $now >= $this->cancels[$reason]) {
            $this->cancelReason = $reason;
        }
    }

    public function wait(float $seconds): void
    {
        $now = Clock::now();
        $next = min([$now + 0.05, $this->stoppingAt ?? INF, ...array_values($this->cancels)]);
        usleep((int) (max(0.0005, min($seconds, max(0.0, $next - $now))) * 1e6));
    }
}
