# frozen_string_literal: true

module OjsWorker
  # A worker: handlers, and the connection to ojs-init while it runs.
  #
  #     worker = OjsWorker::Worker.new
  #     worker.job("email.send") { |job| Mailer.send(*job.args) }
  #     worker.run
  class Worker
    SIGNALS = %w[TERM INT].freeze

    # @param concurrency [Integer, nil] most jobs at once; nil: as many as ojs-init allows (OJS_CONCURRENCY)
    # @param handle_signals [Boolean] whether SIGTERM and SIGINT are taken over while {#run} is in the main thread.
    #   ojs-init sends SIGTERM to a worker that is idle, or whose time is over: no more jobs are taken, those that are
    #   held are cancelled (shutdown), and after `stop_grace` the process ends, whatever its handlers do
    # @param stop_grace [Numeric, nil] seconds that handlers get to end after SIGTERM; nil: as long as they take
    # @param socket_path [String, nil] for tests; nil: what OJS_SOCKET says
    # @raise [ArgumentError] for a value, or an option, that makes no sense
    def initialize(concurrency: nil, handle_signals: true, stop_grace: STOP_GRACE, socket_path: nil, **unknown)
      OjsWorker.check_options("Worker.new", unknown, %w[concurrency handle_signals stop_grace socket_path])
      unless concurrency.nil? || (concurrency.is_a?(Integer) && concurrency.between?(1, MAX_CONCURRENCY))
        raise ArgumentError, "concurrency is a whole number from 1 to #{MAX_CONCURRENCY}, not #{concurrency.inspect}"
      end
      unless stop_grace.nil? || (stop_grace.is_a?(Numeric) && stop_grace >= 0)
        raise ArgumentError, "stop_grace is a number of seconds or nil, not #{stop_grace.inspect}"
      end
      @asked_concurrency = concurrency
      @handle_signals = handle_signals
      @stop_grace = stop_grace
      @socket_path = socket_path
      @handlers = {}
      @middleware = []
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
    def stop
      @stop_asked = true
      session = @session
      session.stop if session && session.link.pid == Process.pid
    end

    # Take jobs until ojs-init, a signal or {#stop} says that it is enough, and what is held is finished.
    # @raise [NotUnderOjsInit, ConnectionLost, ProtocolError, Stalled] and what a handler ended the process with
    def run
      serve(Session.new(self, prepared_link, concurrency: @asked_concurrency, stop_grace: @stop_grace))
    end

    # @api private
    def handler_for(type)
      @handlers[type] || @handlers["*"]
    end

    # @api private
    def types
      @handlers.key?("*") ? nil : @handlers.keys
    end

    # @api private
    def call_handler(job, depth = 0)
      return handler_for(job.type).call(job) if depth == @middleware.size
      @middleware[depth].call(job) { call_handler(job, depth + 1) }
    end

    private

    def check_type(type)
      unless type.is_a?(String) && type.valid_encoding? && type.bytesize.between?(1, MAX_NAME_BYTES)
        raise ArgumentError, "a job type is a string of 1 to #{MAX_NAME_BYTES} bytes, not #{type.inspect}"
      end
      raise ArgumentError, "there are two handlers for #{type.inspect}" if @handlers.key?(type)
    end

    def prepared_link
      raise Error, "a worker runs once; when it has ended, let the process end too" if @session
      raise Error, 'no handler: register one with worker.job("some.type") { |job| ... }' if @handlers.empty?
      socket_path
      Link.new
    end

    def socket_path
      path = @socket_path || ENV.fetch(ENV_SOCKET, "")
      return path unless path.empty?
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
