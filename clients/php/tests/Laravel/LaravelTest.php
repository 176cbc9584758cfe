<?php

declare(strict_types=1);

namespace Ojs\Worker\Tests\Laravel;

use Illuminate\Bus\Dispatcher;
use Illuminate\Bus\Queueable;
use Illuminate\Container\Container;
use Illuminate\Contracts\Bus\Dispatcher as DispatcherContract;
use Illuminate\Contracts\Events\Dispatcher as EventsContract;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Events\Dispatcher as Events;
use Illuminate\Queue\InteractsWithQueue;
use Illuminate\Queue\QueueManager;
use Ojs\Worker\Job;
use Ojs\Worker\Laravel\JobHandler;
use Ojs\Worker\Laravel\OjsConnector;
use Ojs\Worker\Laravel\OjsQueue;
use Ojs\Worker\Outcome;
use Ojs\Worker\Tests\FakeBackend;
use Ojs\Worker\Tests\RecordingLogger;
use Ojs\Worker\Worker;
use PHPUnit\Framework\TestCase;

require_once 'Illuminate/Queue/autoload.php';
require_once 'Illuminate/Events/autoload.php';
require_once 'Illuminate/Bus/autoload.php';

/** A service that the container injects. */
final class Mailer
{
    /** @var list<string> */
    public array $sent = [];
}

/** A job as an application has it: it knows nothing of this library. */
final class SendEmail implements ShouldQueue
{
    use InteractsWithQueue;
    use Queueable;

    public static array $failed = [];
    public int $tries = 5;
    public int $timeout = 30;
    public int $backoff = 7;

    public function __construct(private readonly string $to)
    {
    }

    public function handle(Mailer $mailer): void
    {
        match ($this->to) {
            'error' => throw new \RuntimeException('mailbox full'),
            'release' => $this->release(60),
            'fail' => $this->fail(new \DomainException('no such address')),
            'slow' => Job::current()->sleep(9.0),
            default => $mailer->sent[] = "{$this->to} by attempt {$this->attempts()}",
        };
    }

    public function failed(\Throwable $error): void
    {
        self::$failed[] = $error->getMessage();
    }
}

final class LaravelTest extends TestCase
{
    private Container $app;
    private ?FakeBackend $backend = null;
    /** @var list<string> */
    private array $events = [];

    protected function setUp(): void
    {
        SendEmail::$failed = [];
        $this->app = new Container();
        $this->app->instance(\Illuminate\Contracts\Container\Container::class, $this->app);
        $this->app->singleton(Mailer::class);
        $this->app->instance('events', $events = new Events($this->app));
        $this->app->instance(EventsContract::class, $events);
        $this->app->instance(DispatcherContract::class, new Dispatcher($this->app));
        $events->listen('Illuminate\\Queue\\Events\\*', function (string $name): void {
            $this->events[] = substr($name, strlen('Illuminate\\Queue\\Events\\'));
        });
    }

    protected function tearDown(): void
    {
        $this->backend?->close();
    }

    private function queue(): OjsQueue
    {
        $this->backend = new FakeBackend([201]);
        $config = ['driver' => 'ojs', 'url' => $this->backend->url, 'queue' => 'mail'];
        $this->app->instance('config', ['queue.default' => 'ojs', 'queue.connections.ojs' => $config]);
        $manager = new QueueManager($this->app);
        $manager->extend('ojs', fn (): OjsConnector => new OjsConnector());
        return $manager->connection();
    }

    private function pushAndWork(object $job, int $attempt = 1): Outcome
    {
        $this->queue()->push($job);
        $body = $this->backend->requests()[0]['body'];
        $worker = (new Worker(log: new RecordingLogger()))->job(OjsQueue::TYPE, new JobHandler($this->app));
        return $worker->perform($body['type'], $body['args'], attempt: $attempt, maxAttempts: 5, timeout: 0.5);
    }

    public function testAJobRunsUnchanged(): void
    {
        self::assertSame('ack', $this->pushAndWork(new SendEmail('ann@example.org'), 2)->outcome);
        self::assertSame(['ann@example.org by attempt 2'], $this->app->make(Mailer::class)->sent);
        self::assertSame(['JobQueued', 'JobProcessing', 'JobProcessed'], $this->events);
    }

    public function testWhatIsSent(): void
    {
        self::assertSame('from-the-backend', $this->queue()->later(60, new SendEmail('a'), '', 'other'));
        $options = $this->backend->requests()[0]['body']['options'];
        self::assertEqualsWithDelta(time() + 60, strtotime($options['delay_until']), 3);
        unset($options['delay_until']);
        self::assertEquals(['queue' => 'other', 'timeout_ms' => 30_000,
            'retry' => ['max_attempts' => 5, 'initial_interval' => 'PT7S']], $options);
    }

    public function testAnErrorMayBeTriedAgainAndTheLastOneCallsFailed(): void
    {
        $error = $this->pushAndWork(new SendEmail('error'))->error;
        self::assertSame(['RuntimeException', true, []], [$error['type'], $error['retryable'], SendEmail::$failed]);
        $this->backend->close();
        $this->pushAndWork(new SendEmail('error'), 5);
        self::assertSame(['mailbox full'], SendEmail::$failed);
        self::assertSame(['JobQueued', 'JobProcessing', 'JobExceptionOccurred', 'JobFailed'], array_slice($this->events, -4));
    }

    public function testFailFailsForGood(): void
    {
        $error = $this->pushAndWork(new SendEmail('fail'))->error;
        self::assertSame(['no such address', 'DomainException', false], [$error['message'], $error['type'], $error['retryable']]);
        self::assertSame(['no such address'], SendEmail::$failed);
    }

    public function testReleaseIsARetry(): void
    {
        $error = $this->pushAndWork(new SendEmail('release'))->error;
        self::assertSame([['retry_after_ms' => 60_000], true], [$error['details'], $error['retryable']]);
    }

    public function testATimeoutIsATimeout(): void
    {
        self::assertSame('timeout', $this->pushAndWork(new SendEmail('slow'))->error['code']);
        self::assertSame([], SendEmail::$failed);
    }

    public function testQueueWorkSaysWhatToDo(): void
    {
        $this->expectExceptionMessage('ojs-init -- php worker.php');
        $this->queue()->pop();
    }
}
