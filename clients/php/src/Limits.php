<?php

declare(strict_types=1);

namespace Ojs\Worker;

use function is_string;
use function preg_match;
use function strtoupper;

/**
 * When a process is replaced by a fresh one.
 *
 * @internal
 */
final class Limits
{
    private const MEMORY_AFTER_JOBS = 10;
    private const MEMORY_AFTER_SECONDS = 60.0;

    public function __construct(
        public readonly ?int $maxJobs,
        public readonly ?float $maxAge,
        public readonly ?int $maxMemory,
    ) {
        if ($maxJobs !== null && $maxJobs < 1) {
            throw new \InvalidArgumentException("maxJobs is a number of jobs from 1, not $maxJobs");
        }
        if ($maxAge !== null && !($maxAge >= 0.1)) {
            throw new \InvalidArgumentException("maxAge is a number of seconds from 0.1, not $maxAge");
        }
        if ($maxMemory !== null && $maxMemory < 1) {
            throw new \InvalidArgumentException('maxMemory is more than 0 bytes');
        }
    }

    /** @param int|string|null $size bytes, or a number with K, M or G behind it */
    public static function bytes(int|string|null $size): ?int
    {
        if (!is_string($size)) {
            return $size;
        }
        if (preg_match('/^([1-9][0-9]{0,8})([KMG]?)$/D', strtoupper($size), $match) !== 1) {
            throw new \InvalidArgumentException("maxMemory is a number of bytes, or such as \"256M\" or \"1G\", not $size");
        }
        return (int) $match[1] * ['' => 1, 'K' => 1024, 'M' => 1024 ** 2, 'G' => 1024 ** 3][$match[2]];
    }

    /** Whether a process says that it has done so many jobs: when something hangs on it. */
    public function isTold(int $jobsDone): bool
    {
        return $jobsDone === 1 || $jobsDone === self::MEMORY_AFTER_JOBS
            || ($this->maxJobs !== null && $jobsDone >= $this->maxJobs);
    }

    /** Whether processes have to be looked at from time to time. */
    public function areLookedAt(): bool
    {
        return $this->maxAge !== null || $this->maxMemory !== null;
    }

    /** Whether it is time for a process to leave. */
    public function over(ChildProcess $child): bool
    {
        if ($this->maxJobs !== null && $child->jobsDone >= $this->maxJobs) {
            return true;
        }
        if ($this->maxAge !== null && $child->age() >= $this->maxAge) {
            return true;
        }
        return $this->maxMemory !== null
            && ($child->jobsDone >= self::MEMORY_AFTER_JOBS || $child->age() >= self::MEMORY_AFTER_SECONDS)
            && $child->recentMemory() > $this->maxMemory;
    }
}
