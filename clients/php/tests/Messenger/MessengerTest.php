<?php

declare(strict_types=1);

namespace Ojs\Worker\Tests\Messenger;

use Ojs\Worker\Job;
use Ojs\Worker\Messenger\MessageHandler;
use Ojs\Worker\Messenger\OjsTransport;
use Ojs\Worker\Messenger\OjsTransportFactory;
use Ojs\Worker\Outcome;
use Ojs\Worker\Release;
use Ojs\Worker\Tests\FakeBackend;
use Ojs\Worker\Tests\RecordingLogger;
use Ojs\Worker\Worker;
use PHPUnit\Framework\TestCase;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Exception\LogicException;
use Symfony\Component\Messenger\Exception\TransportException;
use Symfony\Component\Messenger\Exception\UnrecoverableMessageHandlingException;
use Symfony\Component\Messenger\Handler\HandlersLocator;
use Symfony\Component\Messenger\MessageBus;
use Symfony\Component\Messenger\Middleware\HandleMessageMiddleware;
use Symfony\Component\Messenger\Middleware\SendMessageMiddleware;
use Symfony\Component\Messenger\Stamp\DelayStamp;
use Symfony\Component\Messenger\Stamp\ReceivedStamp;
use Symfony\Component\Messenger\Stamp\TransportMessageIdStamp;
use Symfony\Component\Messenger\Transport\Sender\SendersLocatorInterface;
use Symfony\Component\Messenger\Transport\Serialization\PhpSerializer;

require_once 'Symfony/Component/Messenger/autoload.php';

/** A message and its handler as an application has them: they know nothing of this library. */
final class SendEmail
{
    public function __construct(public readonly string $to, public readonly string $body)
    {
    }
}

final class SendEmailHandler
{
    /** @var list<string> */
    public array $sent = [];

    public function __invoke(SendEmail $message): void
    {
        match ($message->to) {
            'never' => throw new UnrecoverableMessageHandlingException('no such address'),
            'later' => throw new \RuntimeException('mailbox full'),
            'back' => throw new Release('not mine'),
            'slow' => Job::current()->sleep(9.0),
            default => $this->sent[] = "{$message->to}: {$message->body}",
        };
    }
}

final class MessengerTest extends TestCase
{
    private SendEmailHandler $handler;
    private ?FakeBackend $backend = null;

    protected function setUp(): void
    {
        $this->handler = new SendEmailHandler();
    }

    protected function tearDown(): void
    {
        $this->backend?->close();
    }

    private function transport(int ...$statuses): OjsTransport
    {
        $this->backend = new FakeBackend($statuses);
        $dsn = 'ojs://' . substr($this->backend->url, 7) . '?queue=mail&token=secret';
        $factory = new OjsTransportFactory();
        self::assertTrue($factory->supports($dsn, []));
        return $factory->createTransport($dsn, ['transport_name' => 'ojs'], new PhpSerializer());
    }

    /** A bus as Symfony builds one: it sends messages, and handles those that were received. */
    private function bus(OjsTransport $transport): MessageBus
    {
        $senders = new class ($transport) implements SendersLocatorInterface {
            public function __construct(private readonly OjsTransport $transport)
            {
            }

            public function getSenders(Envelope $envelope): iterable
            {
                return ['ojs' => $this->transport];
            }
        };
        $handlers = new HandlersLocator([SendEmail::class => [$this->handler]]);
        return new MessageBus([new SendMessageMiddleware($senders), new HandleMessageMiddleware($handlers)]);
    }

    /** Sends a message, and does the job that the backend got. */
    private function sendAndWork(object $message): Outcome
    {
        $bus = $this->bus($this->transport(201));
        $bus->dispatch($message);
        [$request] = $this->backend->requests();
        self::assertSame([], $this->handler->sent);
        $worker = (new Worker(log: new RecordingLogger()))->job(OjsTransport::TYPE, new MessageHandler($bus));
        return $worker->perform($request['body']['type'], $request['body']['args'], timeout: 0.5);
    }

    public function testAMessageComesToItsUnchangedHandler(): void
    {
        self::assertSame('ack', $this->sendAndWork(new SendEmail('ann@example.org', "bytes \xff"))->outcome);
        self::assertSame(["ann@example.org: bytes \xff"], $this->handler->sent);
    }

    public function testWhatIsSent(): void
    {
        $envelope = $this->transport(201)->send(new Envelope(new SendEmail('a', 'b'), [new DelayStamp(60_000)]));
        [$request] = $this->backend->requests();
        self::assertSame('from-the-backend', $envelope->last(TransportMessageIdStamp::class)->getId());
        self::assertSame(['messenger.message', 'mail'], [$request['body']['type'], $request['body']['options']['queue']]);
        self::assertEqualsWithDelta(time() + 60, strtotime($request['body']['options']['delay_until']), 3);
        self::assertStringContainsString('Bearer secret', $request['head']);
    }

    public function testARefusalIsATransportException(): void
    {
        $this->expectException(TransportException::class);
        $this->expectExceptionMessage('status 401');
        $this->transport(401)->send(new Envelope(new SendEmail('a', 'b')));
    }

    public static function outcomes(): array
    {
        return [
            ['never', 'fail', 'no such address', UnrecoverableMessageHandlingException::class, false],
            ['later', 'fail', 'mailbox full', \RuntimeException::class, true],
            ['slow', 'fail', 'the job took longer than it may', 'Timeout', true],
        ];
    }

    /** @dataProvider outcomes */
    public function testAHandlerThatFails(string $to, string $outcome, string $message, string $type, bool $isRetryable): void
    {
        $error = $this->sendAndWork(new SendEmail($to, ''))->error;
        self::assertSame([$message, $type, $isRetryable], [$error['message'], $error['type'], $error['retryable']]);
    }

    public function testAHandlerThatGivesItsMessageBack(): void
    {
        self::assertSame('not mine', $this->sendAndWork(new SendEmail('back', ''))->reason);
    }

    public function testAMessageThatCannotBeReadFailsForGoodAndIsNotQuoted(): void
    {
        $worker = new Worker(log: $log = new RecordingLogger());
        $worker->job(OjsTransport::TYPE, new MessageHandler(new MessageBus()));
        $error = $worker->perform(OjsTransport::TYPE, [['body' => 'the secret']])->error;
        self::assertSame(['MessageDecodingFailed', false], [$error['type'], $error['retryable']]);
        self::assertStringNotContainsString('secret', json_encode([$error, $log->records]));
    }

    public function testAMessageWithoutAHandlerMayFindOneLater(): void
    {
        $bus = new MessageBus([new HandleMessageMiddleware(new HandlersLocator([]))]);
        $worker = (new Worker(log: new RecordingLogger()))->job(OjsTransport::TYPE, new MessageHandler($bus));
        $error = $worker->perform(OjsTransport::TYPE, [(new PhpSerializer())->encode(new Envelope(new SendEmail('a', 'b')))])->error;
        self::assertSame(['handler_not_found', true], [$error['code'], $error['retryable']]);
    }

    public function testMessengerConsumeSaysWhatToDo(): void
    {
        $this->expectException(LogicException::class);
        $this->expectExceptionMessage('ojs-init -- php worker.php');
        $this->transport()->get();
    }

    public function testUnknownOptionsNameThoseThatExist(): void
    {
        $this->expectExceptionMessage('unknown option of an ojs:// transport: que; the options are queue, token, type, timeout');
        (new OjsTransportFactory())->createTransport('ojs+https://backend?que=x', [], new PhpSerializer());
    }
}
