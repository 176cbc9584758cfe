<?php

declare(strict_types=1);

namespace Ojs\Worker\Laravel;

use Illuminate\Contracts\Container\Container;
use Illuminate\Queue\Events\JobExceptionOccurred;
use Illuminate\Queue\Events\JobProcessed;
use Illuminate\Queue\Events\JobProcessing;
use Ojs\Worker\Cancelled;
use Ojs\Worker\Discard;
use Ojs\Worker\Job;
use Ojs\Worker\Release;
use Ojs\Worker\Retry;

/**
 * The handler of jobs that are jobs of Laravel: `$worker->job(OjsQueue::TYPE, new
 * JobHandler($app))`.
 *
 * It runs them as `queue:work` does, with Laravel's events and the job's `failed` method. The
 * backend's retry policy decides about the next attempt.
 */
final class JobHandler
{
    /** @param string $connection the name of the connection in config/queue.php */
    public function __construct(private readonly Container $container, private readonly string $connection = 'ojs')
    {
    }

    public function __invoke(Job $job, array $payload): void
    {
        if (method_exists($this->container, 'forgetScopedInstances')) {
            $this->container->forgetScopedInstances();
        }
        $laravel = new OjsJob($this->container, $job, $payload, $this->connection);
        $this->event(new JobProcessing($this->connection, $laravel));
        try {
            $laravel->fire();
        } catch (Cancelled | Release $end) {
            throw $end;
        } catch (\Throwable $error) {
            $this->event(new JobExceptionOccurred($this->connection, $laravel, $error));
            if (!$laravel->hasFailed() && ($job->isLastAttempt || $error instanceof Discard)) {
                $laravel->fail($error);
            }
            throw $error;
        }
        if ($laravel->hasFailed()) {
            throw new Discard($laravel->failure === null ? 'the job failed itself' : '', previous: $laravel->failure);
        }
        if ($laravel->isReleased()) {
            throw new Retry('the job released itself', after: $laravel->delay);
        }
        $this->event(new JobProcessed($this->connection, $laravel));
    }

    private function event(object $event): void
    {
        if ($this->container->bound('events')) {
            $this->container->make('events')->dispatch($event);
        }
    }
}
