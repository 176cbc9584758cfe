<?php

declare(strict_types=1);

namespace Ojs\Worker;

use function explode;
use function fclose;
use function feof;
use function fread;
use function fwrite;
use function is_resource;
use function stream_set_blocking;
use function stream_set_chunk_size;
use function stream_set_read_buffer;
use function stream_set_write_buffer;
use function strlen;
use function strpos;
use function strrpos;
use function substr;

/**
 * Lines over a stream that never waits: what cannot be written yet is kept until it can.
 *
 * @internal
 */
final class LineStream
{
    private const CHUNK = 262_144;
    /** Room for it is taken at each read, so it costs also when little comes. */
    private const READ_CHUNK = 65_536;
    /** Most bytes read at once, so that the others get their turn. */
    private const READ_BUDGET = 4_194_304;

    private string $in = '';
    private int $searched = 0;
    private string $out = '';
    /** Set here alone. A field: it is looked at several times on each job's way, and a call costs more than the look. */
    public bool $isClosed = false;

    /** @param resource $stream */
    public function __construct(public readonly mixed $stream)
    {
        stream_set_blocking($stream, false);
        stream_set_read_buffer($stream, 0);
        stream_set_write_buffer($stream, 0);
        stream_set_chunk_size($stream, self::CHUNK);
    }

    /** Whether something waits to be written. */
    public function isFull(): bool
    {
        return $this->out !== '';
    }

    /** Write these whole lines, or keep what cannot be written yet. */
    public function write(string $lines): void
    {
        $this->out .= $lines;
        $this->flush();
    }

    public function flush(): void
    {
        while ($this->out !== '') {
            // Broken: then reading says so, after what the other side wrote before.
            $written = fwrite($this->stream, strlen($this->out) > self::CHUNK
                ? substr($this->out, 0, self::CHUNK) : $this->out);
            if (!$written) {
                return;
            }
            $this->out = $written === strlen($this->out) ? '' : substr($this->out, $written);
        }
    }

    /** @return list<string> whole lines that have come, without their line breaks */
    public function read(): array
    {
        $budget = self::READ_BUDGET;
        do {
            $chunk = fread($this->stream, self::READ_CHUNK);
            if ($chunk === false || $chunk === '') {
                $this->isClosed = $this->isClosed || feof($this->stream);
                break;
            }
            $length = strlen($chunk);
            // Mostly one whole line comes, and nothing is here that it belongs to.
            if ($this->in === '' && $length < self::READ_CHUNK && strpos($chunk, "\n") === $length - 1) {
                return [substr($chunk, 0, -1)];
            }
            $this->in .= $chunk;
            $budget -= $length;
        } while ($length === self::READ_CHUNK && $budget > 0);
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

    public function close(): void
    {
        $this->isClosed = true;
        if (is_resource($this->stream)) {
            fclose($this->stream);
        }
    }
}
