<?php

declare(strict_types=1);

namespace Ojs\Worker;

/** There is no ojs-init to take jobs from. */
class NotUnderOjsInit extends OjsError
{
}
