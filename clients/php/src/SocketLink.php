<?php

declare(strict_types=1);

namespace Ojs\Worker;

use function array_key_first;
use function stream_socket_client;
use function strlen;

/**
 * A connection to ojs-init. What cannot be written yet waits; a newer progress or checkpoint takes the place of one that waits.
 *
 * @internal
 */
final class SocketLink
{
    private const PIECE = 65_536;
    private const CONNECT_TIMEOUT = 5.0;

    public readonly LineStream $lines;
    /** @var array<int|string, string> what waits, in the order in which it goes out */
    private array $queue = [];
    private int $number = 0;

    /** @throws NotUnderOjsInit */
    public function __construct(string $path)
    {
        $stream = @stream_socket_client('unix://' . $path, $code, $error, self::CONNECT_TIMEOUT);
        if ($stream === false) {
            throw new NotUnderOjsInit("cannot connect to ojs-init at $path (OJS_SOCKET): $error");
        }
        $this->lines = new LineStream($stream);
    }

    /**
     * Queue a frame; `flush` writes it. Safe in the handler of a signal.
     *
     * @param ?string $key frames with the same key replace each other as long as they wait
     */
    public function send(string $frame, ?string $key = null): void
    {
        $this->queue[$key ?? ++$this->number] = $frame . "\n";
    }

    /** Queue the answer to the job that runs: nothing else of it has to be known any more. */
    public function answer(string $frame): void
    {
        unset($this->queue['progress'], $this->queue['heartbeat']);
        $this->send($frame);
    }

    /** Whether the kernel has all of it. */
    public function isFlushed(): bool
    {
        return $this->queue === [] && !$this->lines->isFull();
    }

    public function flush(): void
    {
        if ($this->lines->isFull()) {
            $this->lines->flush();
        }
        while ($this->queue !== [] && !$this->lines->isFull()) {
            $text = '';
            do {
                $key = array_key_first($this->queue);
                $text .= $this->queue[$key];
                unset($this->queue[$key]);
            } while ($this->queue !== [] && strlen($text) < self::PIECE);
            $this->lines->write($text);
        }
    }
}
