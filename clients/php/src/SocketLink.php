<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * The connection to ojs-init. A newer progress or checkpoint of a job takes the place of one that waits.
 *
 * @internal
 */
final class SocketLink
{
    private const PIECE = 65_536;

    public readonly LineStream $lines;
    /** @var array<string, Outgoing> what waits, in the order in which it goes out */
    private array $queue = [];
    private int $number = 0;

    /** @throws NotUnderOjsInit */
    public function __construct(string $path)
    {
        $stream = @stream_socket_client('unix://' . $path, $code, $error, 5);
        if ($stream === false) {
            throw new NotUnderOjsInit("cannot connect to ojs-init at $path (OJS_SOCKET): $error");
        }
        $this->lines = new LineStream($stream);
    }

    /**
     * Queue a frame; `flush` writes it.
     *
     * @param ?string $key frames with the same key replace each other as long as they wait
     * @param ?\Closure(): void $onWritten called once the kernel has it, or a newer one in its place
     */
    public function send(string $frame, ?string $key = null, ?\Closure $onWritten = null): void
    {
        $this->queue[$key ?? '#' . ++$this->number] = new Outgoing($frame . "\n", $onWritten);
    }

    /** Take back what waits under this key, if anything. */
    public function drop(string $key): void
    {
        unset($this->queue[$key]);
    }

    public function isFlushed(): bool
    {
        return $this->queue === [] && !$this->lines->isFull();
    }

    public function flush(): void
    {
        $this->lines->flush();
        while ($this->queue !== [] && !$this->lines->isFull()) {
            // Those that nobody waits for go out in one piece: ojs-init reads them at once.
            $text = '';
            $onWritten = null;
            do {
                $key = array_key_first($this->queue);
                $item = $this->queue[$key];
                unset($this->queue[$key]);
                $text .= $item->frame;
                $onWritten = $item->onWritten;
            } while ($onWritten === null && $this->queue !== [] && strlen($text) < self::PIECE);
            $this->lines->write($text);
            if ($onWritten !== null && !$this->lines->isFull()) {
                $onWritten();
            } elseif ($onWritten !== null) {
                // Part of it is with the kernel: it is told when the rest has gone.
                $this->queue = ['+' . ++$this->number => new Outgoing('', $onWritten)] + $this->queue;
                return;
            }
        }
    }
}
