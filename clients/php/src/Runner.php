<?php

declare(strict_types=1);

namespace Ojs\Worker;

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
    public function run(array $frame, Channel $channel, int $maxFrame): Answer
    {
        $job = new Job($channel, $frame['job'], $frame['checkpoint'] ?? null);
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
            return Answer::to($job, $result, $error, $channel->cancelReason, $maxFrame, $this->log);
        } finally {
            CurrentJob::$job = null;
        }
    }

    private function call(Job $job): mixed
    {
        [$handler, $arguments] = $this->handlers[$job->type] ?? $this->handlers['*'] ?? throw new Retry(
            'this worker has no handler for ' . Text::clean($job->type, 200),
            code: 'handler_not_found',
            type: 'HandlerNotFound',
        );
        $next = static fn (): mixed => $handler(...$arguments->of($job));
        foreach (array_reverse($this->middleware) as $function) {
            $inner = $next;
            $next = static fn (): mixed => $function($job, $inner);
        }
        return $next();
    }
}
