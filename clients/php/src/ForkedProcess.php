<?php

declare(strict_types=1);

namespace Ojs\Worker;

/** The connection belongs to the process that opened it, and this is a child of that one. */
class ForkedProcess extends OjsError
{
}
