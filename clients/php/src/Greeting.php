<?php

declare(strict_types=1);

namespace Ojs\Worker;

use function array_shift;
use function in_array;
use function is_array;
use function is_int;
use function is_string;
use function json_decode;
use function json_encode;

/**
 * What ojs-init says first.
 *
 * @internal
 */
final class Greeting
{
    private const DEFAULT_MAX_FRAME = 4_194_304;

    private function __construct(
        public readonly string $state,
        public readonly int $concurrency,
        public readonly int $maxFrame,
    ) {
    }

    /**
     * The hello among these lines, of which it takes it and those before it.
     *
     * @param list<string> $lines
     * @throws ProtocolError
     */
    public static function among(array &$lines): ?self
    {
        $found = null;
        while ($found === null && $lines !== []) {
            $found = self::from(array_shift($lines));
        }
        return $found;
    }

    /**
     * @return ?self null: it is another frame, and none of ours
     * @throws ProtocolError
     */
    private static function from(string $line): ?self
    {
        $frame = json_decode($line, true);
        $type = is_array($frame) ? $frame['type'] ?? null : null;
        if ($type === 'error' && ($frame['code'] ?? null) === 'unsupported_protocol') {
            throw new ProtocolError('ojs-init does not speak protocol 1: ' . Text::line((string) ($frame['message'] ?? '')));
        }
        if ($type !== 'hello') {
            return null;
        }
        if (!in_array($frame['protocol'] ?? null, [1, 1.0], true)) {
            throw new ProtocolError('ojs-init speaks protocol ' . Text::line((string) json_encode($frame['protocol'] ?? null), 40)
                . '; this library speaks 1');
        }
        $concurrency = $frame['concurrency'] ?? null;
        $maxFrame = $frame['max_frame'] ?? null;
        return new self(
            is_string($frame['state'] ?? null) ? $frame['state'] : 'running',
            is_int($concurrency) && $concurrency > 0 ? $concurrency : 1,
            is_int($maxFrame) && $maxFrame > 0 ? $maxFrame : self::DEFAULT_MAX_FRAME,
        );
    }
}
