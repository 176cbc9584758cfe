<?php

declare(strict_types=1);

namespace Ojs\Worker;

/** What Job::throwIfCancelled throws. The job is answered as the reason of its cancel asks for. */
final class Cancelled extends \Exception
{
}
