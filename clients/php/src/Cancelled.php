<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * Ends a handler whose job is cancelled, or whose position is saved for a later attempt. Let it
 * pass.
 *
 * It is an Error, so that `catch (Exception $e)` does not catch it. Clean up in `finally`.
 */
final class Cancelled extends \Error
{
    /**
     * @param string $reason shutdown, timeout, cancelled or lost; a later ojs-init may have more
     */
    public function __construct(public readonly string $reason, ?string $message = null)
    {
        parent::__construct($message ?? $reason);
    }
}
