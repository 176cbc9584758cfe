# frozen_string_literal: true

module OjsWorker
  # Describes exceptions for the backend and for the log. ojs-init clips what is too long.
  # @api private
  module Report
    OWN_FOLDER = File.join(__dir__, "")
    # Most calls of one error, and most errors of a chain of causes, in a line of the log.
    LOGGED_CALLS = 50
    LOGGED_CAUSES = 5

    module_function

    # @return [Hash] the `error` of a fail frame. ojs-init reads the beginning of a line that is too
    #   long, so what decides comes first
    def describe(error)
      origin = (error.cause if error.is_a?(Failure)) || error
      message = [error, origin].map { |each| message_of(each) }.push(class_name(origin)).find { |text| !text.empty? }
      { retryable: true, code: "handler_error", type: class_name(origin), message: message,
        backtrace: backtrace(origin), **own_words(error) }
    end

    # What a {Failure} says by itself.
    def own_words(error)
      return {} unless error.is_a?(Failure)
      words = { code: Wire.text(error.code), retryable: error.retryable? }
      words[:type] = Wire.text(error.type) if error.type
      words[:details] = Wire.plain(error.details) if error.details
      words
    rescue StandardError => e
      OjsWorker.log(:warn, "the details of a #{class_name(error)} are no JSON and left out: #{e.class}")
      words
    end

    def message_of(error)
      error.is_a?(SystemExit) ? "the handler called exit(#{error.status})" : Wire.text(error.message)
    rescue StandardError, ScriptError => e
      "(its message cannot be shown: #{e.class})"
    end

    # The library's own classes have no module, as in the other languages.
    def class_name(error) = Wire.text(error.class.name || error.class.to_s).delete_prefix("OjsWorker::")

    # The calls that led to the error, innermost first, without those of this library.
    def backtrace(error)
      (error.backtrace || []).reject { |line| line.start_with?(OWN_FOLDER) }.map { |line| Wire.text(line) }
    end

    # Class, message and stack of an error and its causes.
    def stack(error)
      causes = [error]
      causes << causes.last.cause while causes.last&.cause && causes.size < LOGGED_CAUSES
      causes.map do |each|
        ["#{class_name(each)}: #{Wire.line(message_of(each))}", *backtrace(each).first(LOGGED_CALLS)].join("\n    ")
      end.join("\ncaused by ")
    end
  end
end
