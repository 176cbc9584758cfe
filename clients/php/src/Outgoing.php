<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * A frame on its way out.
 *
 * @internal
 */
final class Outgoing
{
    public function __construct(public readonly string $frame, public readonly ?\Closure $onWritten)
    {
    }
}
