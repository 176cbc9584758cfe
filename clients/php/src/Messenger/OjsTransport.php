<?php

declare(strict_types=1);

namespace Ojs\Worker\Messenger;

use Ojs\Worker\Client;
use Ojs\Worker\EnqueueFailed;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Exception\LogicException;
use Symfony\Component\Messenger\Exception\TransportException;
use Symfony\Component\Messenger\Stamp\DelayStamp;
use Symfony\Component\Messenger\Stamp\TransportMessageIdStamp;
use Symfony\Component\Messenger\Transport\Serialization\PhpSerializer;
use Symfony\Component\Messenger\Transport\Serialization\SerializerInterface;
use Symfony\Component\Messenger\Transport\TransportInterface;

/**
 * Sends messages as jobs to the backend. ojs-init brings them to a worker, whose `MessageHandler`
 * handles them.
 */
final class OjsTransport implements TransportInterface
{
    /** The type of jobs that are messages. */
    public const TYPE = 'messenger.message';

    public function __construct(
        private readonly Client $client,
        private readonly SerializerInterface $serializer = new PhpSerializer(),
        private readonly string $queue = 'default',
        private readonly string $type = self::TYPE,
    ) {
    }

    public function send(Envelope $envelope): Envelope
    {
        $options = ['queue' => $this->queue];
        $delay = $envelope->last(DelayStamp::class)?->getDelay() ?? 0;
        if ($delay > 0) {
            $at = \DateTimeImmutable::createFromFormat('U.u', sprintf('%.6F', microtime(true) + $delay / 1000));
            $options['delay_until'] = $at->format('Y-m-d\TH:i:s.v\Z');
        }
        $message = $this->serializer->encode($envelope->withoutAll(DelayStamp::class));
        try {
            $id = $this->client->enqueue($this->type, [$message], Client::newId(), ...$options);
        } catch (EnqueueFailed $error) {
            throw new TransportException($error->getMessage(), 0, $error);
        }
        return $envelope->with(new TransportMessageIdStamp($id));
    }

    public function get(): iterable
    {
        throw self::notHere();
    }

    public function ack(Envelope $envelope): void
    {
        throw self::notHere();
    }

    public function reject(Envelope $envelope): void
    {
        throw self::notHere();
    }

    private static function notHere(): LogicException
    {
        return new LogicException('messenger:consume cannot take messages from this transport, because ojs-init does: '
            . 'run a worker with ' . MessageHandler::class . ' as its handler, by ojs-init -- php worker.php');
    }
}
