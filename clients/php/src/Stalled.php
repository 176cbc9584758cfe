<?php

declare(strict_types=1);

namespace Ojs\Worker;

/** ojs-init has not read for 10 seconds; the frame was not sent. */
class Stalled extends OjsError
{
}
