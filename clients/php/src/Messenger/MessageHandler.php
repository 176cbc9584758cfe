<?php

declare(strict_types=1);

namespace Ojs\Worker\Messenger;

use Ojs\Worker\Cancelled;
use Ojs\Worker\Discard;
use Ojs\Worker\Failure;
use Ojs\Worker\Release;
use Ojs\Worker\Retry;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Exception\HandlerFailedException;
use Symfony\Component\Messenger\Exception\MessageDecodingFailedException;
use Symfony\Component\Messenger\Exception\NoHandlerForMessageException;
use Symfony\Component\Messenger\Exception\RecoverableExceptionInterface;
use Symfony\Component\Messenger\Exception\UnrecoverableExceptionInterface;
use Symfony\Component\Messenger\MessageBusInterface;
use Symfony\Component\Messenger\Stamp\ConsumedByWorkerStamp;
use Symfony\Component\Messenger\Stamp\ReceivedStamp;
use Symfony\Component\Messenger\Transport\Serialization\PhpSerializer;
use Symfony\Component\Messenger\Transport\Serialization\SerializerInterface;

/**
 * The handler of jobs that are messages: `$worker->job(OjsTransport::TYPE, new
 * MessageHandler($bus))`.
 *
 * It dispatches each message to the bus. The backend's retry policy replaces the one of Messenger:
 * UnrecoverableExceptionInterface fails the job for good, any other error may be tried again.
 */
final class MessageHandler
{
    /** @param string $transport the name of the transport in Messenger's configuration */
    public function __construct(
        private readonly MessageBusInterface $bus,
        private readonly SerializerInterface $serializer = new PhpSerializer(),
        private readonly string $transport = 'ojs',
    ) {
    }

    public function __invoke(array $message): void
    {
        $envelope = $this->decode($message);
        try {
            $this->bus->dispatch($envelope->with(new ReceivedStamp($this->transport), new ConsumedByWorkerStamp()));
        } catch (HandlerFailedException $error) {
            throw self::outcome($error);
        } catch (NoHandlerForMessageException $error) {
            throw new Retry($error->getMessage(), code: 'handler_not_found', previous: $error);
        }
    }

    private function decode(array $message): Envelope
    {
        try {
            return $this->serializer->decode($message);
        } catch (MessageDecodingFailedException) {
            // Its text quotes the message, which must not be in a log.
            $message = 'the message cannot be decoded by ' . $this->serializer::class;
            throw new Discard($message, type: 'MessageDecodingFailed');
        }
    }

    private static function outcome(HandlerFailedException $failed): \Throwable
    {
        // Symfony 7 has the second name alone.
        $get = method_exists($failed, 'getNestedExceptions') ? 'getNestedExceptions' : 'getWrappedExceptions';
        $errors = array_values($failed->$get());
        foreach ($errors as $error) {
            if ($error instanceof Cancelled || $error instanceof Failure || $error instanceof Release) {
                return $error;
            }
        }
        $mayBeTriedAgain = static fn (\Throwable $error): bool => !$error instanceof UnrecoverableExceptionInterface
            || $error instanceof RecoverableExceptionInterface;
        return array_filter($errors, $mayBeTriedAgain) === [] ? new Discard(previous: $errors[0]) : $errors[0];
    }
}
