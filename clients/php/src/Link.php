<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * A connection to ojs-init: lines in both directions.
 *
 * @internal
 */
final class Link
{
    private const CHUNK = 65_536;
    private const WAIT_SECONDS = 1.0;

    public bool $isClosed = false;
    /** @var resource */
    private readonly mixed $stream;
    private string $in = '';
    /** Bytes of `in` that hold no line break. */
    private int $searched = 0;

    /** @throws OjsError if nobody listens there */
    public function __construct(string $path)
    {
        $stream = @stream_socket_client('unix://' . $path, $code, $error, self::WAIT_SECONDS);
        if ($stream === false) {
            throw new OjsError("cannot connect to ojs-init at $path (OJS_SOCKET): $error");
        }
        stream_set_blocking($stream, false);
        stream_set_read_buffer($stream, 0);
        stream_set_write_buffer($stream, 0);
        stream_set_chunk_size($stream, self::CHUNK);
        $this->stream = $stream;
    }

    /**
     * Wait for `hello`, the first frame. Null if the connection closes first, or if the wait is
     * called off.
     *
     * @param ?\Closure(): bool $isCalledOff
     * @return ?array<string, mixed>
     * @throws OjsError if ojs-init speaks another protocol
     */
    public function hello(?\Closure $isCalledOff = null): ?array
    {
        do {
            pcntl_signal_dispatch();
            if ($this->isClosed || ($isCalledOff !== null && $isCalledOff())) {
                return null;
            }
            $lines = $this->lines(self::WAIT_SECONDS);
        } while ($lines === []);
        $frame = json_decode(array_shift($lines), true);
        $this->in = implode("\n", [...$lines, $this->in]);
        $this->searched = 0;
        if (!in_array($frame['protocol'], [1, 1.0], true)) {
            throw new OjsError("ojs-init speaks protocol {$frame['protocol']}; this library speaks 1");
        }
        return $frame;
    }

    /** Write a frame. Returns when the kernel has all of it, or when the connection is closed. */
    public function write(string $frame): void
    {
        $rest = $frame . "\n";
        while (!$this->isClosed) {
            $written = (int) @fwrite($this->stream, $rest);
            if ($written === strlen($rest)) {
                return;
            }
            $rest = substr($rest, $written);
            // Read meanwhile: ojs-init reads nothing from a connection that leaves too much unread.
            $this->select(self::WAIT_SECONDS, true);
            $this->fill();
        }
    }

    /**
     * The whole lines that have come. Without one, wait for at most this many seconds; a signal
     * ends the wait.
     *
     * @return list<string> without their line breaks
     */
    public function lines(float $seconds = 0.0): array
    {
        $lines = $this->cut();
        if ($lines === [] && !$this->isClosed && ($seconds <= 0.0 || $this->select($seconds, false))) {
            $this->fill();
            $lines = $this->cut();
        }
        return $lines;
    }

    private function select(float $seconds, bool $isWriting): bool
    {
        $read = [$this->stream];
        $write = $isWriting ? [$this->stream] : null;
        $none = null;
        return (bool) @stream_select($read, $write, $none, (int) $seconds, (int) (fmod($seconds, 1.0) * 1e6));
    }

    private function fill(): void
    {
        do {
            $chunk = (string) @fread($this->stream, self::CHUNK);
            $this->in .= $chunk;
        } while (strlen($chunk) === self::CHUNK);
        if ($chunk === '' && feof($this->stream)) {
            $this->isClosed = true;
        }
    }

    /** @return list<string> */
    private function cut(): array
    {
        $end = strlen($this->in) > $this->searched ? strrpos($this->in, "\n", $this->searched) : false;
        if ($end === false) {
            $this->searched = strlen($this->in);
            return [];
        }
        $lines = explode("\n", substr($this->in, 0, $end));
        $this->in = substr($this->in, $end + 1);
        $this->searched = strlen($this->in);
        return $lines;
    }
}
