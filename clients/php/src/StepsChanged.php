<?php

declare(strict_types=1);

namespace Ojs\Worker;

/** Steps or rows are not those with which the job began. The job fails for good: it cannot go on where it was. */
final class StepsChanged extends Discard
{
    public function __construct(string $message)
    {
        parent::__construct($message, type: 'StepsChanged');
    }
}
