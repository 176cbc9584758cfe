# frozen_string_literal: true

module OjsWorker
  # A worker: handlers, and the connection to ojs-init while it runs.
  #
  #     worker = OjsWorker::Worker.new
  #     worker.job("email.send") { |job, to, body| Mailer.send(to, body) }
  #     worker.run
  class Worker
    SIGNALS = %w[TERM INT].freeze
    # Modes of ojs-init in which a worker gets no socket.
    OTHER_MODES = %w[gateway exec none].freeze

    # @param concurrency [Integer, nil] most jobs at once, 1 to 10,000; nil, or more than ojs-init
    #   allows (OJS_CONCURRENCY): as many as it allows
    # @param handle_signals [Boolean] whether SIGTERM and SIGINT call {#stop} while {#run} is in the
    #   main thread
    # @param socket_path [String, nil] for tests; nil: OJS_SOCKET
    # @param ping [Boolean] whether ojs-init also checks on the process while it works, and ends it
    #   after some 40 seconds without an answer: only for handlers that never keep the interpreter so
    #   long (a long sort or Regexp, an extension in C)
    # @raise [ArgumentError]
    def initialize(concurrency: nil, handle_signals: true, socket_path: nil, ping: false, **unknown)
      OjsWorker.check_options("Worker.new", unknown, %w[concurrency handle_signals socket_path ping])
      check_count("concurrency", concurrency)
      @asked_concurrency, @handle_signals, @socket_path = concurrency, handle_signals, socket_path
      @registry, @fork_hooks, @ping = Registry.new, [], ping ? true : false
    end

    # Register the handler of these job types; `"*"`, or no type, for every other type.
    #
    # The handler gets the job, and its arguments one by one if it has parameters for them.
    # @param types [Array<String>] job types
    # @param args [Array, nil] the types of the arguments: a class, nil, or an Array of alternatives
    #   for each. A job with others fails for good, as {InvalidArgs}
    # @param handler [#call, nil] instead of a block
    # @return [#call] the handler
    # @raise [ArgumentError] for a type that has a handler, and a handler that no job can call
    def job(*types, args: nil, handler: nil, &block)
      callable = one_callable("handler", handler, block)
      handler = CallableHandler.new(callable, args)
      (types.empty? ? ["*"] : types).each { |type| @registry.add(type, handler) }
      callable
    end

    # Register job classes: see {Job}.
    # @return [void]
    # @raise [ArgumentError] for a class whose `perform` cannot take the arguments of a job
    def register(*classes)
      classes.each { |job_class| @registry.add(job_class.job_type, ClassHandler.new(job_class)) }
    end

    # Put something around every handler; the first that is registered is the outermost.
    #
    #     worker.middleware { |job, &handler| Timing.measure(job.type) { handler.call } }
    # @param object [#call, nil] its `call(job)` yields to the handler and returns the result
    # @raise [ArgumentError]
    def middleware(object = nil, &block)
      callable = one_callable("middleware", object, block)
      if callable.is_a?(Proc) && callable.parameters.none? { |kind, _| kind == :block }
        raise ArgumentError, "a block of middleware is { |job, &handler| ... handler.call ... }"
      end
      @registry.middleware << callable
    end

    # Run the block once for each job that fails, before ojs-init gets the failure. Jobs of an
    # unknown type, {InvalidArgs} and timeouts are included; jobs that go back are not.
    # @yieldparam job [JobContext]
    # @yieldparam error [Exception]
    def on_failed(&block) = @registry.hooks << block

    # Run the block in each forked process before it takes jobs.
    def after_fork(&block) = @fork_hooks << block

    # @return [Integer] most jobs at once; 0 before it is known
    def concurrency = @session&.concurrency || @asked_concurrency || 0

    # @return [String] running, quiet or terminate
    def state = @session&.state || "running"

    # @return [String, nil] the worker's name at the backend; nil before it is known
    def worker_id = @session&.worker_id

    # @return [Float, nil] seconds until a shutdown cancels what is held; nil while there is none
    def remaining = @session&.remaining

    # Take no more jobs, and let {#run} return when the jobs that are held are finished. Any thread
    # and any signal handler may call it. In a forked process it ends that process alone.
    def stop
      @stop_asked = true
      @session&.stop
    end

    # Take jobs until ojs-init, a signal or {#stop} ends that. If ojs-init closes the connection
    # while jobs are held, the process ends with status 1.
    # @param processes [Integer, nil] processes to fork, which share the concurrency; nil: none
    # @return [void]
    # @raise [NotUnderOjsInit, ProtocolError, ArgumentError]
    # @raise [SystemExit] with `processes`, if a process ended badly in the end
    def run(processes: nil, **unknown)
      OjsWorker.check_options("Worker#run", unknown, %w[processes])
      check_count("processes", processes)
      raise Error, 'no handler: register one with worker.job("some.type") { |job| ... }' if @registry.empty?
      path = socket_path
      return run_session(@asked_concurrency, path) unless processes
      prefork = Prefork.new(link = Link.new, processes, @asked_concurrency, @registry.types) do |share|
        @fork_hooks.each(&:call)
        run_session(share, path)
      end
      serve(prefork, link, path)
      exit(prefork.status) unless prefork.status.zero?
    end

    # Run the handler of a job in this process, over the code that serves ojs-init: for tests.
    #
    #     outcome = worker.perform("email.send", ["a@b.c", "hello"])
    #     assert_equal({ "sent" => true }, outcome.result)
    #
    # @param type [String] the job's type
    # @param args [Array] its arguments
    # @param options [Hash] see {Perform}
    # @return [Outcome]
    # @raise [ArgumentError] for an unknown option, and for what is no JSON
    # @raise [Error] if the handler does not end within `patience` seconds
    def perform(type, args = [], **options) = Perform.new(@registry, type, args, options).run

    private

    def one_callable(name, *given)
      return given.compact[0] if given.one? && given.compact[0].respond_to?(:call)
      raise ArgumentError, "a #{name} is a block or an object with `call`"
    end

    def check_count(name, value)
      return if value.nil? || (value.is_a?(Integer) && value.between?(1, MAX_CONCURRENCY))
      raise ArgumentError, "#{name} is a whole number from 1 to #{MAX_CONCURRENCY}, not #{value.inspect}"
    end

    def socket_path
      path = @socket_path || ENV.fetch(ENV_SOCKET, "")
      return path unless path.empty?
      mode = ENV.fetch("OJS_MODE", "")
      how = if OTHER_MODES.include?(mode)
              "because ojs-init runs in mode #{mode}: leave OJS_MODE out, or set it to socket"
            else
              "so no ojs-init gives jobs to this worker. Run it as: ojs-init -- ruby #{Wire.line($PROGRAM_NAME, 200)}"
            end
      raise NotUnderOjsInit, "#{ENV_SOCKET} is not set, #{how}", caller(2)
    end

    def run_session(concurrency, path)
      link = Link.new
      serve(Session.new(@registry, link, concurrency: concurrency, ping: @ping), link, path)
    end

    # Connect, and let a {Session} or {Prefork} run with signals that stop it.
    def serve(session, link, path)
      @session = session
      session.stop if @stop_asked
      with_signals(link) do
        connect(link, path)
        session.run
      end
    end

    def connect(link, path)
      link.connect(path)
    rescue SystemCallError, ArgumentError => e
      raise NotUnderOjsInit, "cannot connect to ojs-init at #{Wire.line(path)} (#{ENV_SOCKET}): #{e.message}"
    end

    def with_signals(link)
      return yield unless @handle_signals && Thread.current == Thread.main
      before = SIGNALS.to_h { |name| [name, trap(name) { stop }] }
      link.on_fork = -> { restore_signals(before) }
      begin
        yield
      ensure
        # ojs-init may still send its SIGTERM: the program ends well without it.
        before["TERM"] = "IGNORE" if [nil, "DEFAULT"].include?(before["TERM"])
        restore_signals(before)
      end
    end

    def restore_signals(before) = before.each { |name, handler| trap(name, handler || "DEFAULT") }
  end
end
