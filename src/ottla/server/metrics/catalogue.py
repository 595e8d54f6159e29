"""Every series of a broker with its type and meaning: HELP and TYPE of the pages, and docs/metrics.md."""

from collections.abc import Iterable

from ottla.exposition import COUNTER, GAUGE, HISTOGRAM, SUMMARY, UNTYPED, Family, Sample

MAIN, PARTITIONS = "/metrics", "/metrics/partitions"

_MAIN: dict[str, tuple[str, str]] = {
    # As Strimzi's dashboard and alerts name Kafka's.
    "kafka_server_brokertopicmetrics_messagesin_total": (COUNTER, "Records appended, by topic; all topics without the label"),
    "kafka_server_brokertopicmetrics_bytesin_total": (COUNTER, "Bytes appended, by topic; all topics without the label"),
    "kafka_server_brokertopicmetrics_bytesout_total": (COUNTER, "Bytes sent to consumers, by topic; all topics without the label"),
    "kafka_server_brokertopicmetrics_replicationbytesin_total": (COUNTER, "Bytes fetched from leaders, by topic; all topics without the label"),
    "kafka_server_brokertopicmetrics_replicationbytesout_total": (COUNTER, "Bytes sent to followers, by topic; all topics without the label"),
    "kafka_server_brokertopicmetrics_totalproducerequests_total": (COUNTER, "Partitions that Produce requests named, by topic; all topics without the label"),
    "kafka_server_brokertopicmetrics_totalfetchrequests_total": (COUNTER, "Partitions that consumers' fetches were answered for, by topic; all topics without the label"),
    "kafka_server_brokertopicmetrics_failedproducerequests_total": (COUNTER, "Partitions of Produce requests that were refused, by topic; all topics without the label"),
    "kafka_server_brokertopicmetrics_failedfetchrequests_total": (COUNTER, "Partitions of fetches that were refused, by topic; all topics without the label"),
    "kafka_server_replicamanager_partitioncount": (GAUGE, "Replicas on this broker"),
    "kafka_server_replicamanager_leadercount": (GAUGE, "Partitions that this broker leads"),
    "kafka_server_replicamanager_underreplicatedpartitions": (GAUGE, "Partitions led here with replicas that are not in sync"),
    "kafka_server_replicamanager_underminisrpartitioncount": (GAUGE, "Partitions led here with fewer replicas in sync than min.insync.replicas: they refuse acks=all"),
    "kafka_server_replicamanager_atminisrpartitioncount": (GAUGE, "Partitions led here with exactly min.insync.replicas in sync"),
    "kafka_server_replicamanager_offlinereplicacount": (GAUGE, "Replicas here whose disk failed"),
    "kafka_server_replicamanager_isrshrinks_total": (COUNTER, "Replicas fell out of the ISR of partitions led here"),
    "kafka_server_replicamanager_isrexpands_total": (COUNTER, "Replicas came into the ISR of partitions led here"),
    "kafka_controller_kafkacontroller_activecontrollercount": (GAUGE, "1 at the controller, 0 elsewhere: the sum over brokers is 1"),
    "kafka_controller_kafkacontroller_offlinepartitionscount": (GAUGE, "Partitions of the cluster without a leader, told by the controller; 0 elsewhere"),
    "kafka_controller_kafkacontroller_activebrokercount": (GAUGE, "Brokers that may lead, told by the controller; 0 elsewhere"),
    "kafka_controller_kafkacontroller_fencedbrokercount": (GAUGE, "Brokers that are registered and away, told by the controller; 0 elsewhere"),
    "kafka_controller_controllerstats_uncleanleaderelections_total": (COUNTER, "Leaders elected out of sync since this broker started: records may be lost. The same at every broker"),
    "kafka_log_logmanager_offlinelogdirectorycount": (GAUGE, "Log folders that failed"),
    "kafka_network_socketserver_networkprocessoravgidle_percent": (GAUGE, "Share of the last second, 0 to 1, in which the event loop did not compute"),
    "kafka_network_requestmetrics_totaltimems": (SUMMARY, "Milliseconds from the last byte of a request to its answer on the socket, of the last minutes"),
    "kafka_network_requestmetrics_requestqueuetimems": (SUMMARY, "The same until the handler began"),
    "kafka_network_requestmetrics_localtimems": (SUMMARY, "The same from there until the handler first waited"),
    "kafka_network_requestmetrics_remotetimems": (SUMMARY, "The same while it waited for replicas, data or a group"),
    "kafka_network_requestmetrics_responsequeuetimems": (SUMMARY, "The same while it was encoded, and answers before it left"),
    "kafka_network_requestmetrics_responsesendtimems": (SUMMARY, "The same until it was written to the socket"),
    "kafka_network_requestmetrics_requests_total": (COUNTER, "Requests by API and version"),
    "kafka_network_requestmetrics_errors_total": (COUNTER, "Requests that were answered with an error as a whole, by API and error"),
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent": (GAUGE, "The same: one event loop reads requests and handles them"),
    "kafka_server_socket_server_metrics_connection_count": (UNTYPED, "Connections, by listener"),
    "kafka_server_kafkaserver_linux_disk_read_bytes": (GAUGE, "Bytes that this process had read from disks (Linux)"),
    "kafka_server_kafkaserver_linux_disk_write_bytes": (GAUGE, "Bytes that this process had written to disks (Linux)"),
    # As kafka_exporter names them.
    "kafka_brokers": (GAUGE, "Brokers that are registered, told by the controller alone"),
    "kafka_topic_partitions": (GAUGE, "Partitions of a topic, told by the leader of its first one"),
    "kafka_consumergroup_members": (GAUGE, "Members of a group, told by its coordinator"),
    "kafka_consumergroup_lag_sum": (UNTYPED, "Records that a group has not committed, by topic, told by its coordinator"),
    # As every process names them.
    "process_cpu_seconds_total": (COUNTER, "Processor time, user and system"),
    "process_resident_memory_bytes": (GAUGE, "Memory in use"),
    "process_virtual_memory_bytes": (GAUGE, "Address space"),
    "process_start_time_seconds": (GAUGE, "When the process started, as Unix time"),
    "process_open_fds": (GAUGE, "File handles in use"),
    "process_max_fds": (GAUGE, "File handles that the system allows"),
    # Ours.
    "ottla_build_info": (GAUGE, "1, with the version and the broker's id"),
    "ottla_ready": (GAUGE, "1 while /health/ready answers 200"),
    "ottla_requests_total": (COUNTER, "Requests by API and version"),
    "ottla_request_errors_total": (COUNTER, "Requests that were answered with an error as a whole, by API and error"),
    "ottla_request_bytes_total": (COUNTER, "Bytes of requests, by API"),
    "ottla_request_seconds": (HISTOGRAM, "Time from the last byte of a request to its answer on the socket, by API"),
    "ottla_request_phase_seconds": (HISTOGRAM, "The same split as Kafka splits it, by API: queue (until it began), local (until it waited), remote (waiting for replicas, data or a group), response_queue (encoding, and answers before it), send"),
    "ottla_throttles_total": (COUNTER, "Answers that told a client to wait because of its quota, by API"),
    "ottla_throttle_seconds_total": (COUNTER, "How long clients were told to wait, by API"),
    "ottla_connections": (GAUGE, "Connections of all listeners"),
    "ottla_logins_total": (COUNTER, "SASL logins that succeeded"),
    "ottla_failed_logins_total": (COUNTER, "SASL logins that failed"),
    "ottla_failed_tls_handshakes_total": (COUNTER, "TLS handshakes that failed"),
    "ottla_denied_total": (COUNTER, "Questions to the authorizer that it denied"),
    "ottla_partitions_offline": (GAUGE, "Replicas here whose disk failed"),
    "ottla_log_folder_bytes": (GAUGE, "Size of all logs in a log folder"),
    "ottla_log_folder_free_bytes": (GAUGE, "Room left on the disk of a log folder"),
    "ottla_log_bytes": (GAUGE, "Size of a topic's logs on this broker"),
    "ottla_fetch_sessions": (GAUGE, "Incremental fetch sessions"),
    "ottla_loop_lag_max_seconds": (GAUGE, "The latest that the event loop was in the last minute"),
    "ottla_loop_lag_seconds": (HISTOGRAM, "How late the event loop came to a timer that is due every 50 ms"),
    "ottla_file_handles_limit": (GAUGE, "File handles that the system allows"),
    "ottla_file_handles_budget": (GAUGE, "File handles that partitions and connections may need"),
    "ottla_memory_max_bytes": (GAUGE, "The most memory that was in use"),
    "ottla_request_memory_bytes": (GAUGE, "Memory that requests hold, by lane"),
    "ottla_request_memory_waiting": (GAUGE, "Requests that wait for memory, by lane"),
    "ottla_unsent_bytes": (GAUGE, "Answers that clients have not read yet"),
    "ottla_groups": (GAUGE, "Groups that this broker coordinates"),
    "ottla_transactions_open": (GAUGE, "Transactions under way that this broker coordinates, by state"),
    "ottla_transaction_age_max_seconds": (GAUGE, "Age of the oldest transaction that this broker coordinates and that is not ended"),
    "ottla_topics_without_series": (GAUGE, "Topics here beyond the first 1,000: they count only in the sums"),
    "ottla_client_telemetry_instances": (GAUGE, "Client instances whose last metrics are kept"),
    "ottla_client_telemetry_pushes_total": (COUNTER, "Metrics that clients pushed (KIP-714)"),
    "ottla_client_telemetry_bytes_total": (COUNTER, "Bytes of metrics that clients pushed"),
    "ottla_metrics_family_cut": (GAUGE, "1 for a family with more than 20000 series: the others are left out"),
}  # fmt: skip
_PARTITIONS: dict[str, tuple[str, str]] = {
    "kafka_cluster_partition_atminisr": (GAUGE, "1 if exactly min.insync.replicas are in sync, told by the leader"),
    "kafka_cluster_partition_underminisr": (GAUGE, "1 if fewer than min.insync.replicas are in sync, told by the leader"),
    "kafka_log_log_size": (GAUGE, "Bytes of a replica's log"),
    "kafka_log_log_logstartoffset": (GAUGE, "First offset of a replica's log"),
    "kafka_log_log_logendoffset": (GAUGE, "Offset behind the last record of a replica's log"),
    "kafka_topic_partition_current_offset": (GAUGE, "High watermark, told by the leader"),
    "kafka_topic_partition_oldest_offset": (GAUGE, "First offset, told by the leader"),
    "kafka_topic_partition_in_sync_replica": (GAUGE, "Replicas in sync, told by the leader"),
    "kafka_topic_partition_replicas": (GAUGE, "Replicas, told by the leader"),
    "kafka_topic_partition_leader": (GAUGE, "The leader's id, told by the leader"),
    "kafka_topic_partition_leader_is_preferred": (GAUGE, "1 if the first replica leads, told by the leader"),
    "kafka_topic_partition_under_replicated_partition": (GAUGE, "1 if replicas are not in sync, told by the leader"),
    "kafka_consumergroup_current_offset": (GAUGE, "Offset that a group has committed, told by its coordinator"),
    "kafka_consumergroup_lag": (GAUGE, "Records behind that offset, told by the group's coordinator"),
    "ottla_high_watermark": (GAUGE, "High watermark of a replica"),
    "ottla_follower_lag": (GAUGE, "Records that a follower's replica is behind, by follower, told by the leader"),
    "ottla_metrics_family_cut": (GAUGE, "1 for a family with more than 20000 series: the others are left out"),
}  # fmt: skip
PAGES = {MAIN: _MAIN, PARTITIONS: _PARTITIONS}
_ALL = _MAIN | _PARTITIONS


def family(name: str, samples: Iterable[Sample]) -> Family:
    """KeyError for a name that is not in the catalogue: no series without a meaning."""
    kind, meaning = _ALL[name]
    return Family(name, kind, meaning, samples)
