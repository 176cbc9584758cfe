<?php

declare(strict_types=1);

namespace Ojs\Worker\Tests\Library;

use Ojs\Worker\Discard;
use Ojs\Worker\InvalidArgs;
use Ojs\Worker\Job;
use Ojs\Worker\Release;
use Ojs\Worker\Retry;
use Ojs\Worker\Tests\RecordingLogger;
use Ojs\Worker\Worker;
use PHPUnit\Framework\TestCase;

/** What a handler's end means to the backend, the log and the failure hooks. */
final class OutcomeTest extends TestCase
{
    private RecordingLogger $log;
    private Worker $worker;

    protected function setUp(): void
    {
        $this->log = new RecordingLogger();
        $this->worker = new Worker(log: $this->log);
    }

    public function testATimeoutThatIsNoNumberIsNone(): void
    {
        $runner = new \Ojs\Worker\Runner(new \Ojs\Worker\Log($this->log));
        $runner->handlers['t'] = new \Ojs\Worker\Handler(fn (Job $job): bool => $job->deadline === null, null, 't');
        foreach (['soon', [1], new \Ojs\Worker\BigInteger('99999999999999999999')] as $timeout) {
            $frame = ['job' => ['id' => '1', 'type' => 't', 'timeout_ms' => $timeout, 'timeout' => $timeout]];
            $answer = $runner->run($frame, new \Ojs\Worker\TestSession(null, 0.0, []));
            self::assertSame('{"type":"ack","job_id":"1","result":true}', $answer);
        }
    }

    public function testAnyErrorFailsTheJobWithItsClassMessageAndBacktrace(): void
    {
        $error = $this->worker->job('t', fn () => throw new \DomainException("bad \xff\nend"))->perform('t')->error;
        self::assertSame(['handler_error', 'DomainException', true], [$error['code'], $error['type'], $error['retryable']]);
        self::assertSame("bad \u{fffd}\nend", $error['message']);
        self::assertStringContainsString('OutcomeTest.php:', $error['backtrace'][0]);
        self::assertStringNotContainsString('/src/', implode("\n", $error['backtrace']));
    }

    public function testTheOwnWordsOfAHandler(): void
    {
        $details = ['why' => "\xff", 'what' => fopen(__FILE__, 'r')];
        $this->worker->job('r', fn () => throw new Retry('later', 1.5, 'x_r', 'Busy', $details));
        self::assertSame(['retryable' => true, 'code' => 'x_r', 'type' => 'Busy', 'message' => 'later',
            'details' => ['retry_after_ms' => 1500, 'why' => "\u{fffd}", 'what' => null]], $this->worker->perform('r')->error);
        $this->worker->job('d', fn () => throw new Discard(previous: new \RangeException('too far')));
        $error = $this->worker->perform('d')->error;
        self::assertSame(['too far', 'RangeException', false], [$error['message'], $error['type'], $error['retryable']]);
        $this->worker->job('b', fn () => throw new Release('not mine'));
        self::assertSame(['release', 'not mine'], [($o = $this->worker->perform('b'))->outcome, $o->reason]);
        self::assertSame(['error'], $this->log->levels(), 'the one with a cause');
    }

    public static function logged(): array
    {
        return [
            'attempts are left' => [fn () => throw new \Exception('x'), 1, 3, ['warning']],
            'the last attempt' => [fn () => throw new \Exception('x'), 3, 3, ['error']],
            'nobody knows' => [fn () => throw new \Exception('x'), 1, null, ['error']],
            'for good' => [fn () => throw new Discard('x', previous: new \Exception()), 1, 3, ['error']],
            'Retry' => [fn () => throw new Retry('x'), 1, 3, []],
            'Discard' => [fn () => throw new Discard('x'), 1, 3, []],
            'Release' => [fn () => throw new Release('x'), 1, 3, []],
            'a timeout that is obeyed' => [fn (Job $job) => $job->sleep(9), 1, 3, []],
            'arguments' => [fn (int $n) => 1, 1, 3, ['error']],
        ];
    }

    /** @dataProvider logged */
    public function testWhatIsInTheLog(\Closure $handler, int $attempt, ?int $most, array $levels): void
    {
        $this->worker->job('t', $handler)->perform('t', attempt: $attempt, maxAttempts: $most, timeout: 0.01);
        self::assertSame($levels, $this->log->levels());
    }

    public function testEachFailureIsSeenOnceByTheHook(): void
    {
        $seen = [];
        $this->worker->onFailure(function (Job $job, \Throwable $error) use (&$seen): void {
            $seen[] = [$job->type, $error::class, $job->isLastAttempt];
            throw new \Exception('the tracker is away');
        });
        $this->worker->job('error', fn () => throw new \DomainException('x'))->job('args', fn (int $n) => 1)
            ->job('retry', fn () => throw new Retry('x'))->job('release', fn () => throw new Release('x'))->job('fine', fn () => 1)
            ->job('slow', fn (Job $job) => $job->sleep(9));
        foreach (['error', 'args', 'retry', 'release', 'fine', 'unknown', 'slow'] as $type) {
            $this->worker->perform($type, attempt: 2, maxAttempts: 2, timeout: 0.01);
        }
        self::assertSame([['error', \DomainException::class, true], ['args', InvalidArgs::class, true],
            ['retry', Retry::class, true], ['unknown', Retry::class, true], ['slow', Retry::class, true]], $seen);
    }

    public static function noJson(): array
    {
        return [
            'NAN' => [NAN], 'broken text' => ["\xff"], 'a resource' => [STDIN], 'too deep' => [self::nested(100)],
            'an object that throws' => [new class implements \JsonSerializable {
                public function jsonSerialize(): mixed
                {
                    throw new \Exception('the secret');
                }
            }],
        ];
    }

    private static function nested(int $levels): array
    {
        return $levels === 1 ? [] : [self::nested($levels - 1)];
    }

    /** @dataProvider noJson */
    public function testAResultThatIsNoJsonIsLeftOut(mixed $result): void
    {
        $outcome = $this->worker->job('t', fn () => $result)->perform('t', id: 'the-id');
        self::assertSame(['ack', null], [$outcome->outcome, $outcome->result]);
        self::assertSame(['error'], $this->log->levels());
        self::assertStringContainsString('the-id', $this->log->records[0]['message']);
        self::assertStringNotContainsString('secret', $this->log->records[0]['message']);
    }

    public function testWhatIsJson(): void
    {
        $this->worker->job('t', fn (array $a) => ['a' => $a, 'f' => 1.0, 'o' => new \stdClass(), 'u' => 'ä/', 'e' => Color::Red]);
        self::assertSame(['a' => [1, [2]], 'f' => 1.0, 'o' => [], 'u' => 'ä/', 'e' => 'red'],
            $this->worker->perform('t', [[1, [2]]])->result);
        self::assertSame(self::nested(98), $this->worker->job('n', fn () => self::nested(98))->perform('n')->result);
    }

    public function testMiddlewareIsAroundTheHandlerTheFirstOneOutermost(): void
    {
        foreach (['outer', 'inner'] as $name) {
            $this->worker->middleware(function (Job $job, callable $next) use ($name): string {
                $job->context[] = $name;
                return "$name(" . $next() . ')';
            });
        }
        $this->worker->job('t', fn (Job $job): string => implode('+', $job->context));
        self::assertSame('outer(inner(outer+inner))', $this->worker->perform('t')->result);
        self::assertSame('outer(inner(outer+inner))', $this->worker->perform('t')->result);
    }

    public function testTheJobThatRunsIsKnown(): void
    {
        $this->worker->job('in', fn () => Job::current()->type);
        $this->worker->job('out', fn () => [$this->worker->perform('in')->result, Job::current()->logFields()]);
        $trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
        self::assertSame(['in', [
            'ojs' => ['job_id' => 'j', 'job_type' => 'out', 'queue' => 'mail', 'attempt' => 2],
            'trace' => ['trace_id' => '0af7651916cd43dd8448eb211c80319c', 'span_id' => 'b7ad6b7169203331'],
        ]], $this->worker->perform('out', queue: 'mail', attempt: 2, meta: ['traceparent' => $trace], id: 'j')->result);
        self::assertNull(Job::current());
    }

    public function testALineOfTheLogHasNoControlCharactersAndAnEnd(): void
    {
        $this->worker->perform("a\nb" . str_repeat('x', 20_000));
        self::assertSame([], $this->log->records);
        $this->worker->job("a\nb", fn () => throw new \Exception('x'))->perform("a\nb");
        self::assertSame('job 01900000-0000-7000-8000-000000000000 (a b) failed', $this->log->records[0]['message']);
        self::assertSame(10_003, strlen(\Ojs\Worker\Text::line(str_repeat('x', 20_000))));
    }

    public function testALogIsALogger(): void
    {
        $this->expectExceptionMessage('log is a PSR-3 logger');
        new Worker(log: new \stdClass());
    }

    public function testProgressAndHeartbeat(): void
    {
        $this->worker->job('t', function (Job $job): void {
            $job->heartbeat();
            $job->progress(2.0, 'all', ['n' => 1]);
            $job->progress(-1.0);
            $job->progress(NAN);
        });
        $outcome = $this->worker->perform('t');
        self::assertSame([['progress' => 1.0, 'message' => 'all', 'data' => ['n' => 1]], ['progress' => 0.0]], $outcome->progress);
        self::assertSame('JsonException', $outcome->error['type']);
    }
}
