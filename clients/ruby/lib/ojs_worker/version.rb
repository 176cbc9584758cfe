# frozen_string_literal: true

module OjsWorker
  # The gem's version.
  VERSION = "0.2.0"
end
