<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * Does one job, from its frame to its answer. The worker's processes and `perform` both use it.
 *
 * @internal
 */
final class Runner
{
    /**
     * Failures that this library makes because of a mistake in the program: the log shows where.
     */
    private const MISTAKES = [InvalidArgs::class, StepsChanged::class, CheckpointTooLarge::class];

    /** @var array<string, Handler> by job type */
    public array $handlers = [];
    /** @var list<\Closure(Job, \Closure): mixed> */
    public array $middleware = [];
    /** @var list<\Closure(Job, \Throwable): void> */
    public array $failureHooks = [];

    public function __construct(public readonly Log $log)
    {}

    /** @return ?list<string> the job types of this worker; null means every type */
    public function types(): ?array
    {
        return isset($this->handlers['*']) ? null : array_map(strval(...), array_keys($this->handlers));
    }

    /** The frame that says which jobs this worker takes. */
    public function ready(int $concurrency): string
    {
        $types = $this->types();
        return Json::encode([
            'type' => 'ready', 'protocol' => 1, 'concurrency' => $concurrency, 'ok' => false, 'cancel_signal' => true,
            'client' => 'ojs-worker-php ' . Worker::VERSION,
        ] + ($types === null ? [] : ['types' => $types]));
    }

    /**
     * @param array<string, mixed> $frame a job frame
     * @return string the frame that answers it
     */
    public function run(array $frame, Session $session): string
    {
        $job = new Job($session, $frame['job'], $frame['checkpoint'] ?? null, $frame['traceparent'] ?? null);
        $outer = Job::$running;
        Job::$running = $session->job = $job;
        $result = null;
        $error = null;
        try {
            try {
                $session->leave();
                $result = $this->call($job);
                $job->finish();
            } catch (\Throwable $error) {
                // Any error is the job's failure. The worker goes on.
            }
            $job->isTold = true;
        } catch (\Throwable $late) {
            // A signal arrived behind the handler. Its own error counts.
            $error ??= $late;
            $job->isTold = true;
        }
        $answer = $error === null ? $this->ack($job, $result) : $this->answerFor($error, $job);
        $session->job = null;
        Job::$running = $outer;
        $session->enter();
        return $answer;
    }

    private function call(Job $job): mixed
    {
        $handler = $this->handlers[$job->type] ?? $this->handlers['*'] ?? throw new Retry(
            'this worker has no handler for ' . ($job->type === '' ? 'a job without a type' : $job->type),
            code: 'handler_not_found',
            type: 'HandlerNotFound',
        );
        $next = static fn (): mixed => $handler->call($job);
        foreach (array_reverse($this->middleware) as $function) {
            $inner = $next;
            $next = static fn (): mixed => $function($job, $inner);
        }
        return $next();
    }

    private function ack(Job $job, mixed $result): string
    {
        $frame = ['type' => 'ack', 'job_id' => $job->id];
        try {
            return Json::encode($result === null ? $frame : $frame + ['result' => $result]);
        } catch (\Throwable $error) {
            // The work is done, and a failure would repeat it.
            $what = is_object($result) ? Text::className($result) : get_debug_type($result);
            $why = $error instanceof \JsonException ? $error->getMessage() : Text::className($error);
            $this->log->about($job, 'error', "is done without its result: a result of type $what is no JSON ($why)");
            return Json::encode($frame);
        }
    }

    private function answerFor(\Throwable $error, Job $job): string
    {
        try {
            $job->saveBeforeEnd();
        } catch (\Throwable $unsaved) {
            $this->log->about($job, 'error', 'could not save its position', $unsaved);
        }
        $cancelled = self::cancelledIn($error);
        if ($cancelled !== null) {
            $error = $cancelled->reason === 'timeout'
                ? new Retry('the job took longer than it may', code: 'timeout', type: 'Timeout')
                : new Release($cancelled->getMessage());
        }
        if ($error instanceof Release) {
            return Answer::release($job->id, $error);
        }
        $isOwnWords = $error instanceof Failure && $error->getPrevious() === null
            && !in_array($error::class, self::MISTAKES, true);
        if (!$isOwnWords) {
            $mayComeAgain = $job->attempt < ($job->envelope['max_attempts'] ?? 0) && !$error instanceof Discard;
            $this->log->about($job, $mayComeAgain ? 'warning' : 'error', 'failed', $error);
        }
        foreach ($this->failureHooks as $hook) {
            try {
                $hook($job, $error);
            } catch (\Throwable $broken) {
                $this->log->about($job, 'error', 'failed, and onFailure threw an error', $broken);
            }
        }
        return Answer::fail($job->id, $error);
    }

    /**
     * The cancel that ended the handler, also if a framework wrapped it into an error of its own.
     */
    private static function cancelledIn(?\Throwable $error): ?Cancelled
    {
        while ($error !== null && !$error instanceof Cancelled) {
            $error = $error instanceof Failure || $error instanceof Release ? null : $error->getPrevious();
        }
        return $error;
    }
}
