-- Who looks after whom, as the clinic keeps it. "from" is in milliseconds since 1970.
CREATE TABLE roster (
    patient text PRIMARY KEY,
    nurse text NOT NULL,
    ward text NOT NULL,
    "from" bigint NOT NULL
);
