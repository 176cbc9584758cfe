<?php

declare(strict_types=1);

namespace Ojs\Worker;

use function array_keys;
use function array_map;
use function array_reverse;
use function strval;

/**
 * Does one job: from its frame to its answer. The processes of a worker and `perform` both do it here.
 *
 * @internal
 */
final class Runner
{
    /** @var array<string, array{\Closure, Arguments}> */
    private array $handlers = [];
    /** @var list<\Closure> */
    private array $middleware = [];

    public function __construct(public readonly Logger $log)
    {
    }

    public function register(string $type, callable $handler): void
    {
        if (isset($this->handlers[$type])) {
            throw new \InvalidArgumentException("there is a handler for $type already");
        }
        $this->handlers[$type] = [\Closure::fromCallable($handler), new Arguments($handler)];
    }

    public function addMiddleware(callable $function): void
    {
        $this->middleware[] = \Closure::fromCallable($function);
    }

    /** @return ?list<string> the types that are taken; null: every type */
    public function types(): ?array
    {
        return isset($this->handlers['*']) ? null : array_map(strval(...), array_keys($this->handlers));
    }

    public function hasHandlers(): bool
    {
        return $this->handlers !== [];
    }

    /** @param array<string, mixed> $frame a job frame, decoded; it has an id and a type */
    public function run(array $frame, Channel $channel): Answer
    {
        $job = new Job($channel, $frame['job'], $frame['checkpoint'] ?? null);
        // A handler may have a test of another one in it.
        $outer = CurrentJob::$job;
        CurrentJob::$job = $job;
        $result = null;
        $error = null;
        try {
            $result = $this->call($job);
            if ($result instanceof \Generator) {
                throw new Discard('the handler is a generator: it has yield in it, and has not run', type: 'InvalidResult');
            }
        } catch (\Throwable $error) {
            // Whatever it is: it is the job's failure, and the worker lives on.
        }
        try {
            return Answer::to($job, $result, $error, $channel->cancelReason, $channel->maxFrame, $this->log);
        } catch (\Throwable $unmade) {
            return Answer::unmade($job, $error, $unmade, $this->log);
        } finally {
            CurrentJob::$job = $outer;
        }
    }

    private function call(Job $job): mixed
    {
        [$handler, $arguments] = $this->handlers[$job->type] ?? $this->handlers['*'] ?? throw new Retry(
            'this worker has no handler for ' . Text::clean($job->type, 200),
            code: 'handler_not_found',
            type: 'HandlerNotFound',
        );
        if ($this->middleware === []) {
            return $handler(...$arguments->of($job));
        }
        $next = static fn (): mixed => $handler(...$arguments->of($job));
        foreach (array_reverse($this->middleware) as $function) {
            $inner = self::repeatable($job, $next);
            $next = static fn (): mixed => $function($job, $inner);
        }
        return $next();
    }

    /** What a middleware is given: it may call it again when it has failed. */
    private static function repeatable(Job $job, \Closure $next): \Closure
    {
        $isFirst = true;
        $mark = null;
        return static function () use ($job, $next, &$isFirst, &$mark): mixed {
            if ($isFirst) {
                [$isFirst, $mark] = [false, $job->mark()];
            } else {
                $job->rewind($mark);
            }
            return $next();
        };
    }
}
