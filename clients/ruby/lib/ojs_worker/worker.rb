# frozen_string_literal: true

module OjsWorker
  # A worker: handlers, and the connection to ojs-init while it runs.
  #
  #     worker = OjsWorker::Worker.new
  #     worker.job("email.send") { |job| Mailer.send(*job.args) }
  #     worker.run
  class Worker
    SIGNALS = %w[TERM INT].freeze
    private_constant :SIGNALS

    # @param concurrency [Integer, nil] most jobs at once; nil: as many as ojs-init allows (OJS_CONCURRENCY)
    # @param handle_signals [Boolean] whether SIGTERM and SIGINT are taken over while {#run} is in the main thread.
    #   ojs-init sends SIGTERM to a worker that is idle, or that it gives up on: no more jobs are taken, those that are
    #   held are cancelled (shutdown), and after `stop_grace` the process ends, whatever its handlers do
    # @param stop_grace [Numeric, nil] seconds that handlers get to end after SIGTERM; nil: as long as they take
    # @param socket_path [String, nil] for tests; nil: what OJS_SOCKET says
    # @raise [ArgumentError] for a value, or an option, that makes no sense
    def initialize(concurrency: nil, handle_signals: true, stop_grace: STOP_GRACE, socket_path: nil, **unknown)
      OjsWorker.check_options("Worker.new", unknown, %w[concurrency handle_signals stop_grace socket_path])
      unless concurrency.nil? || (concurrency.is_a?(Integer) && concurrency.between?(1, MAX_CONCURRENCY))
        raise ArgumentError, "concurrency is a whole number from 1 to #{MAX_CONCURRENCY}, not #{concurrency.inspect}"
      end
      unless stop_grace.nil? || (stop_grace.is_a?(Numeric) && stop_grace.real? && stop_grace >= 0 && stop_grace <= MAX_STOP_GRACE)
        raise ArgumentError, "stop_grace is a number of seconds up to #{MAX_STOP_GRACE}, or nil to wait, not #{stop_grace.inspect}"
      end
      @asked_concurrency = concurrency
      @handle_signals = handle_signals
      @stop_grace = stop_grace
      @socket_path = socket_path
      @handlers = {}
      @middleware = []
      @step_times = {}
    end

    # Register the handler of these job types; `"*"`, or no type at all, for every other type.
    # @param types [Array<String>] job types
    # @param handler [#call, nil] what is called with the {Job}, when no block is given
    # @yieldparam job [Job]
    # @yieldreturn [Object, nil] the result, anything that is JSON; nil for none
    # @return [#call] the handler
    # @raise [ArgumentError] for a type that has a handler, or is no name, and for something that cannot be called
    def job(*types, handler: nil, &block)
      raise ArgumentError, "a handler is a block or an object with `call`, and not both" if handler && block
      handler ||= block
      raise ArgumentError, "a handler is a block or an object with `call`, not #{handler.inspect}" unless handler.respond_to?(:call)
      check_parameters(handler)
      types = ["*"] if types.empty?
      types.each { |type| check_type(type) }
      raise ArgumentError, "more than #{MAX_TYPES} job types" if @handlers.size + types.size > MAX_TYPES
      types.each { |type| @handlers[type] = handler }
      handler
    end

    # Put something around every handler: the first that is registered is the outermost.
    #
    #     worker.middleware { |job, &handler| Timing.measure(job.type) { handler.call } }
    #
    # It may change the result, and raise {Retry}, {Discard} or {Release}.
    # @param object [#call, nil] one whose `call(job)` yields to the handler and returns the result
    # @raise [ArgumentError] for something that cannot be called
    def middleware(object = nil, &block)
      raise ArgumentError, "a middleware is a block or an object with `call`, and not both" if object && block
      object ||= block
      raise ArgumentError, "a middleware is a block or an object with `call`, not #{object.inspect}" unless object.respond_to?(:call)
      if object.is_a?(Proc) && object.parameters.none? { |kind, _| kind == :block }
        raise ArgumentError, "a middleware block has the form { |job, &handler| ... handler.call ... }"
      end
      @middleware << object
      object
    end

    # @return [Integer] most jobs at once; 0 before it is known
    def concurrency
      @session&.concurrency || @asked_concurrency || 0
    end

    # @return [String] running, quiet or terminate
    def state
      @session&.state || "running"
    end

    # @return [String, nil] the name that ojs-init has towards the backend; known once connected
    def worker_id
      @session&.worker_id
    end

    # @return [Float, nil] seconds until what is not finished is cancelled; nil while nothing shuts down
    def remaining
      @session&.remaining
    end

    # Take no more jobs, finish those that are held, then let {#run} return. From any thread or signal handler.
    #
    # In a handler of a worker with several processes it ends only the handler's own, and another one takes its place.
    def stop
      @stop_asked = true
      @pool&.finish
      session = @session
      session.stop if session && session.link.pid == Process.pid
    end

    # Take jobs until ojs-init, a signal or {#stop} says that it is enough, and what is held is finished.
    #
    # With `processes`, forks so many that share OJS_CONCURRENCY, replaces those that end, and ends when all have ended; with
    # their worst status, if that is not 0. A process over one of the limits is replaced: the new one takes jobs before the
    # old one stops taking them.
    # @param processes [Integer, nil] how many; nil: none are forked
    # @param max_jobs [Integer, nil] jobs after which a process is replaced
    # @param max_age [Numeric, nil] seconds after which it is
    # @param max_memory [Integer, nil] bytes of memory (resident set size) from which on it is, after 10 jobs or 1 min
    # @raise [NotUnderOjsInit, ConnectionLost, ProtocolError, Stalled] and what a handler ended the process with
    # @raise [ArgumentError] for a value, or an option, that makes no sense
    def run(processes: nil, max_jobs: nil, max_age: nil, max_memory: nil, **unknown)
      OjsWorker.check_options("Worker#run", unknown, %w[processes max_jobs max_age max_memory])
      limits = { max_jobs: max_jobs, max_age: max_age, max_memory: max_memory }
      check_limits(processes, limits)
      check_runnable
      return serve(new_session(@asked_concurrency)) if processes.nil?
      offered = Processes.offered(ENV.fetch("OJS_CONCURRENCY", nil))
      status = run_processes(processes, [offered, @asked_concurrency].compact.min, limits)
      exit(status) unless status.zero?
    end

    # @api private
    def handler_for(type)
      @handlers[type] || @handlers["*"]
    end

    # @api private
    # @return [Numeric] seconds that this step took when it was last done in this process; 0 when it was not
    def usual_step(type, name)
      @step_times[[type, name]] || 0
    end

    # @api private
    def note_step(type, name, seconds)
      @step_times.clear if @step_times.size >= MAX_TYPES # names made of data
      @step_times[[type, name]] = seconds
    end

    # @api private
    def types
      @handlers.key?("*") ? nil : @handlers.keys
    end

    # @api private
    def call_handler(job, depth = 0)
      return handler_for(job.type).call(job) if depth == @middleware.size
      rewind = nil
      @middleware[depth].call(job) do
        # After a failure it may call the handler again: its steps and loops come once more.
        rewind ? rewind.call : rewind = job.mark
        call_handler(job, depth + 1)
      end
    end

    private

    def check_type(type)
      unless type.is_a?(String) && type.valid_encoding? && type.bytesize.between?(1, MAX_NAME_BYTES)
        raise ArgumentError, "a job type is a string of 1 to #{MAX_NAME_BYTES} bytes, not #{type.inspect}"
      end
      raise ArgumentError, "there are two handlers for #{type.inspect}" if @handlers.key?(type)
    end

    def check_limits(processes, limits)
      unless processes.nil? || (processes.is_a?(Integer) && processes.between?(1, MAX_CONCURRENCY))
        raise ArgumentError, "processes is a whole number from 1 to #{MAX_CONCURRENCY}, not #{processes.inspect}"
      end
      limits.each do |name, value|
        next if value.nil?
        raise ArgumentError, "#{name} is for processes of which there can be another one: say processes: 1 or more, too" if processes.nil?
        next if value.is_a?(name == :max_age ? Numeric : Integer) && value.positive?
        raise ArgumentError, "#{name} is a number above 0, not #{value.inspect}"
      end
    end

    def run_processes(count, total, limits)
      @pool = Processes.new(count, total, limits[:max_memory]) { |share, io| run_child(share, Parent.new(io, **limits)) }
      @pool.finish if @stop_asked
      @pool.run
    end

    # @return [Integer] the status of this child
    def run_child(share, parent)
      serve(session = new_session(share, parent))
      0
    rescue SystemExit => e
      e.status
    rescue SignalException => e
      128 + e.signo
    rescue ConnectionLost, NotUnderOjsInit, ProtocolError => e
      # A connection that was there and is closed may be this one alone. If ojs-init is gone, the next process finds that out.
      parent.lost unless e.is_a?(ConnectionLost) && session&.greeted?
      warn("#{Wire.clean($PROGRAM_NAME, 200)}: #{e.message}")
      1
    rescue StandardError => e
      warn("#{Wire.clean($PROGRAM_NAME, 200)}: #{Report.in_full(e)}")
      1
    end

    def new_session(concurrency, parent = nil)
      Session.new(self, Link.new, concurrency: concurrency, stop_grace: @stop_grace, parent: parent)
    end

    def check_runnable
      raise Error, "a worker runs once; when it has ended, let the process end too" if @session
      raise Error, 'no handler: register one with worker.job("some.type") { |job| ... }' if @handlers.empty?
      socket_path
    end

    # A handler that needs more than the job would fail with each one, and a block would get nil without a word.
    def check_parameters(handler)
      is_block = handler.is_a?(Proc) && !handler.lambda?
      callable = handler.is_a?(Proc) || handler.is_a?(Method) ? handler : handler.method(:call)
      least = callable.arity.negative? ? -callable.arity - 1 : callable.arity
      takes_none = !is_block && callable.arity.zero?
      return unless least > 1 || takes_none || callable.parameters.any? { |kind, _| kind == :keyreq }
      raise ArgumentError, "a handler is called with the job alone, and this one has the parameters " \
                           "#{callable.parameters.map(&:last).inspect}: write { |job| ... }; the job's arguments are in job.args"
    end

    def socket_path
      path = @socket_path || ENV.fetch(ENV_SOCKET, "")
      return path unless path.empty?
      mode = ENV.fetch(ENV_MODE, "")
      if MODES_WITHOUT_SOCKET.include?(mode)
        raise NotUnderOjsInit, "#{ENV_SOCKET} is not set, because ojs-init runs in mode #{mode}: " \
                               "leave #{ENV_MODE} out, or set it to socket"
      end
      raise NotUnderOjsInit, "#{ENV_SOCKET} is not set: this is a worker for ojs-init, which starts it and gives it jobs. " \
                             "Run it as: ojs-init -- ruby #{Wire.clean($PROGRAM_NAME, 200)}"
    end

    def serve(session)
      @session = session
      session.stop if @stop_asked
      with_signals(session) { session.serve(socket_path) }
      raise session.exit_error if session.exit_error
    end

    def with_signals(session)
      return yield unless @handle_signals && Thread.current == Thread.main
      before = {}
      session.link.in_forked_child = -> { restore_signals(before) }
      SIGNALS.each { |name| before[name] = trap(name) { on_signal(session, name, before) } }
      # In a child of ours: not the parent's own, and what came in the meantime.
      before.update(@pool.signals_before) if @pool
      session.signalled if @pool&.signalled_in_child?
      begin
        yield
      ensure
        session.link.in_forked_child = nil
        # The one that ojs-init sends when all is done may still come: the program ends well without it.
        before["TERM"] = "IGNORE" if session.ending? && [nil, "DEFAULT"].include?(before["TERM"])
        restore_signals(before)
      end
    end

    def on_signal(session, name, before)
      return session.signalled if session.link.pid == Process.pid
      # For a forked child that had not its own handlers back yet.
      restore_signals(before)
      Process.kill(name, Process.pid)
    end

    def restore_signals(before)
      before.each { |name, handler| trap(name, handler || "DEFAULT") }
    end
  end
end
